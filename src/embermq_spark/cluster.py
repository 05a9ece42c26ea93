"""A live cluster, as options describe it: who is there, and how to reach them. Plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from embermq.client.blocking import PATIENCE_S
from embermq.client.blocking_routes import BlockingRoutes
from embermq.client.client import make_credentials, make_tls_context
from embermq.client.connections import parse_addresses
from embermq.errors import TopicNotFound
from embermq.scan.broker_files import broker_place
from embermq.scan.splits import StorePlace
from embermq.scan.wanted import Wanted
from embermq_spark.options import ReadOptions


@dataclass(frozen=True, slots=True)
class Cluster:
    """Name servers, and who asks them."""

    namesrv: str
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    tls: bool = False
    patience_s: float = PATIENCE_S  # how long a broker may be away

    @classmethod
    def of(cls, options: ReadOptions) -> Cluster:
        assert options.namesrv is not None
        return cls(options.namesrv, options.access_key, options.secret_key, options.tls, options.timeout / 1000)

    @property
    def routes(self) -> BlockingRoutes:
        """Asks the name servers. Raises SettingsError for addresses that are none."""
        return _routes_of(self)

    def find_brokers(self, topics: Iterable[str]) -> dict[str, str]:
        """The addresses of brokers by name: those that have `topics`, or all without any.

        Raises TopicNotFound, or ReadLost if no name server answers.
        """
        named = sorted(topics)
        if not named:
            return self.routes.find_brokers()
        found: dict[str, str] = {}
        for topic in named:
            route = self.routes.find_route(topic)
            if route is None:
                raise TopicNotFound(topic)
            found |= {queue.broker: route.readers[queue.broker] for queue in route.read_queues}
        return found

    def has_queue(self, topic: str, broker: str, queue: int) -> bool:
        """Whether a topic has a queue that can be read at a broker. Raises ReadLost."""
        route = self.routes.find_route(topic)
        return route is not None and any(each.broker == broker and each.queue == queue for each in route.read_queues)

    def find_topics(self, wanted: Wanted) -> list[str]:
        """The wanted topics. Raises ReadLost, or what a user is refused with who may not list topics and names none."""
        return sorted(filter(wanted.accepts_topic, wanted.topics or self.routes.find_topics()))

    def written_queues(self, broker: str, wanted: Wanted) -> list[tuple[str, int]]:
        """Topic and number of a broker's queues that messages go to, of wanted topics. Raises ReadLost."""
        return [
            (topic, queue.queue)
            for topic in self.find_topics(wanted)
            if (route := self.routes.find_route(topic)) is not None
            for queue in route.write_queues
            if queue.broker == broker
        ]

    def place_of(self, address: str, scheme: str) -> StorePlace:
        """A broker of this cluster, for scans."""
        return broker_place(
            address,
            access_key=self.access_key,
            secret_key=self.secret_key,
            tls=self.tls,
            patience_s=self.patience_s,
            scheme=scheme,
        )


@lru_cache(maxsize=16)
def _routes_of(cluster: Cluster) -> BlockingRoutes:
    return BlockingRoutes(
        parse_addresses(cluster.namesrv),
        credentials=make_credentials(cluster.access_key, cluster.secret_key),
        tls=make_tls_context(cluster.tls),
    )
