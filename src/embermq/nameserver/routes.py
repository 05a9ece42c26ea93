"""The state of a name server: brokers, their addresses, whether they live, and the topics they serve.

    broker name ─→ cluster, id ─→ address        topic ─→ broker name ─→ queues
                        └─→ last heard of, on which connection, its version

A broker is there from its first registration until it says goodbye, its connection closes or nothing is heard
from it for too long. An address that begins with `:` is one of this process: clients reach it at whatever
address they reached us, so whoever answers them puts that in front.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from embermq.clock import Clock
from embermq.errors import IllegalField
from embermq.format.registration_body import Registration
from embermq.model.flags import Permission
from embermq.model.route import MASTER_ID, Clusters, RoutedBroker, RoutedQueues, TopicRoute
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion
from embermq.nameserver.settings import NameServerSettings
from embermq.nameserver.topics import TopicQueues
from embermq.rpc.peer import Peer

log = logging.getLogger(__name__)

UNIT: Final = 1  # bits of a topic's system flag
UNIT_SUBSCRIBED: Final = 2


class Registrant(NamedTuple):
    """Who registers."""

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str = ""  # where its copies follow it
    timeout_ms: int | None = None  # nothing heard for so long means gone; None of one in this process: never
    acting_master: bool | None = False  # None of a broker before 5.0, which does not know of it
    zone: str | None = None


class Registered(NamedTuple):
    """What a copy is told of its master; nothing for a master."""

    master_address: str | None = None
    master_ha_address: str | None = None


@dataclass(slots=True)
class _Live:
    """What is known of one address."""

    heard_at: float  # of the clock's monotonic time
    timeout_ms: int | None
    version: DataVersion
    peer: Peer | None
    ha_address: str
    filter_servers: tuple[str, ...]


@dataclass(slots=True)
class _Broker:
    cluster: str
    name: str
    addresses: dict[int, str] = field(default_factory=dict)
    acting_master: bool = False
    zone: str | None = None


class Routes:
    """Who serves which topic. One thread uses it."""

    def __init__(self, clock: Clock, settings: Callable[[], NameServerSettings] = NameServerSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._brokers: dict[str, _Broker] = {}
        self._live: dict[tuple[str, str], _Live] = {}  # by broker name and address
        self._topics = TopicQueues()

    # Brokers.

    def register(
        self,
        who: Registrant,
        registration: Registration,
        *,
        peer: Peer | None = None,
        is_whole: bool = False,
    ) -> Registered:
        """Take what a broker says of itself; with `is_whole`, topics that it does not name are gone.

        Raises IllegalField for a broker that cannot be taken, and changes nothing.
        """
        broker = self._brokers.get(who.name) or _Broker(who.cluster, who.name)
        self._check(broker, who, registration, is_local=peer is None)
        if self._is_outdated(broker, who, registration.topics.version):
            log.warning("registration ignored, another is newer broker=%s address=%s", who.name, who.address)
            return Registered()
        is_new = broker.addresses.get(who.broker_id) != who.address
        self._place(broker, who)
        before = self._live.get((who.name, who.address))
        self._live[who.name, who.address] = _Live(
            heard_at=self._clock.monotonic(),
            timeout_ms=who.timeout_ms,
            version=registration.topics.version,
            peer=peer,
            ha_address=who.ha_address,
            filter_servers=registration.filter_servers,
        )
        if is_new or before is None:
            log.info("broker registered broker=%s id=%d address=%s", who.name, who.broker_id, who.address)
        if self._speaks_for(broker, who):
            self._take_topics(broker, who, registration, is_new=is_new, is_whole=is_whole)
        return self._master_of(broker) if who.broker_id != MASTER_ID else Registered()

    def unregister(self, name: str, address: str, *, reason: str = "it said goodbye") -> None:
        """Forget an address of a broker, and with the last one the broker and its queues."""
        self._live.pop((name, address), None)
        broker = self._brokers.get(name)
        ids = [] if broker is None else [number for number, known in broker.addresses.items() if known == address]
        if broker is None or not ids:
            return
        for number in ids:
            del broker.addresses[number]
        log.info("broker gone broker=%s address=%s reason=%s", name, address, reason)
        if not broker.addresses:
            del self._brokers[name]
            self._topics.forget_broker(name)
        elif broker.acting_master and MASTER_ID not in broker.addresses:
            self._topics.wipe_write(name)

    def connection_closed(self, peer: Peer) -> None:
        """Forget whoever registered on this connection."""
        for (name, address), live in list(self._live.items()):
            if live.peer is peer:
                self.unregister(name, address, reason="its connection was closed")

    def expire(self) -> None:
        """Forget those that nothing was heard from for too long, and close their connections."""
        now = self._clock.monotonic()
        for (name, address), live in list(self._live.items()):
            if live.timeout_ms is not None and now - live.heard_at > live.timeout_ms / 1000:
                self.unregister(name, address, reason=f"nothing heard for {live.timeout_ms} ms")
                if live.peer is not None:
                    live.peer.close()

    def heard_of(self, name: str, address: str) -> DataVersion | None:
        """Note that a broker lives; the version of what it told, None if it is not registered."""
        live = self._live.get((name, address))
        if live is None:
            return None
        live.heard_at = self._clock.monotonic()
        return live.version

    def find_broker(self, name: str) -> RoutedBroker | None:
        broker = self._brokers.get(name)
        if broker is None:
            return None
        return RoutedBroker(broker.cluster, name, dict(broker.addresses), broker.acting_master, broker.zone)

    def clusters(self) -> Clusters:
        """All brokers, by name and by cluster."""
        names: dict[str, list[str]] = {}
        for name, broker in sorted(self._brokers.items()):
            names.setdefault(broker.cluster, []).append(name)
        brokers = {name: found for name in sorted(self._brokers) if (found := self.find_broker(name))}
        return Clusters(brokers, {cluster: tuple(names[cluster]) for cluster in sorted(names)})

    def wipe_write(self, name: str) -> int:
        """Show no queue of a broker as writable, until it tells something new of it; how many topics that are."""
        return self._topics.wipe_write(name)

    def restore_write(self, name: str) -> int:
        """Show every queue of a broker as readable and writable; how many topics that are."""
        return self._topics.restore_write(name)

    # Topics.

    def find_route(self, topic: str) -> TopicRoute | None:
        """Where a topic is served; None if no broker of it is there."""
        queues = self._topics.shown(topic)
        brokers = [broker for each in queues if (broker := self.find_broker(each.broker))]
        if not brokers:
            return None
        return TopicRoute(
            queues=tuple(queues),
            brokers=tuple(brokers),
            filter_servers=self._filter_servers(brokers),
            mappings=self._topics.mappings(topic),
        )

    def topics(self, *, cluster: str | None = None) -> list[str]:
        """The names of all topics, or of those that brokers of a cluster have."""
        if cluster is None:
            return self._topics.names()
        return self._topics.names_of(self._names_in(cluster))

    def topics_with(self, accept: Callable[[int], bool]) -> list[str]:
        """The topics whose system flag is accepted."""
        return [name for name in self._topics.names() if accept(self._topics.shown(name)[0].sys_flag)]

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Forget a topic, on all brokers or on those of a cluster; a broker that tells it again brings it back."""
        self._topics.forget_topic(topic, None if cluster is None else self._names_in(cluster))

    def delete_topics_of(self, broker: str, topics: Iterable[str]) -> None:
        """Forget the queues that one broker had of some topics."""
        for topic in topics:
            self._topics.forget_topic(topic, [broker])

    def register_topic(self, topic: str, queues: Iterable[RoutedQueues]) -> None:
        """Take the queues of one topic on known brokers. Raises IllegalField, and changes nothing."""
        told = list(queues)
        for each in told:
            if each.broker not in self._brokers:
                raise IllegalField("body", f"broker {each.broker[:80]!r} is not registered; register it first")
        for each in told:
            self._topics.tell(topic, each)

    # How a registration is taken.

    def _check(self, broker: _Broker, who: Registrant, registration: Registration, *, is_local: bool) -> None:
        if broker.cluster != who.cluster:
            reason = f"broker {who.name[:80]!r} belongs to cluster {broker.cluster!r}; give it another name"
            raise IllegalField("clusterName", reason)
        holder = broker.addresses.get(who.broker_id)
        live = self._live.get((who.name, holder)) if holder is not None else None
        if live is not None and live.peer is None and not is_local:
            reason = f"{who.name[:80]!r} with id {who.broker_id} is the broker of this process; give yours another name"
            raise IllegalField("brokerName", reason)
        if holder is None and len(registration.topics.topics) == 1 and not is_local:
            # A single topic is a change of what was told before, and nothing was.
            raise IllegalField("body", "a first registration has all topics of a broker, this one has a single one")

    def _is_outdated(self, broker: _Broker, who: Registrant, version: DataVersion) -> bool:
        """Whether a broker of a later term has the id already, at another address."""
        holder = broker.addresses.get(who.broker_id)
        if holder is None or holder == who.address:
            return False
        live = self._live.get((who.name, holder))
        return live is not None and live.version.state_version > version.state_version

    def _place(self, broker: _Broker, who: Registrant) -> None:
        self._brokers[who.name] = broker
        broker.acting_master = bool(who.acting_master)
        broker.zone = who.zone
        for number, address in list(broker.addresses.items()):
            if address == who.address and number != who.broker_id:  # a copy that became the master
                del broker.addresses[number]
        replaced = broker.addresses.get(who.broker_id)
        if replaced is not None and replaced != who.address:
            self._live.pop((who.name, replaced), None)
        broker.addresses[who.broker_id] = who.address

    def _speaks_for(self, broker: _Broker, who: Registrant) -> bool:
        """Whether its topics count: those of the master, or of the first copy while there is none."""
        if who.broker_id == MASTER_ID:
            return True
        return who.acting_master is not None and who.broker_id == min(broker.addresses)

    def _take_topics(
        self, broker: _Broker, who: Registrant, registration: Registration, *, is_new: bool, is_whole: bool
    ) -> None:
        topics = registration.topics.topics
        if is_whole or (self._settings().delete_missing_topics and not registration.mappings):
            for topic in self._topics.forget_broker(broker.name, except_for=topics):
                log.info("topic gone topic=%s broker=%s", topic, broker.name)
        is_read_only = broker.acting_master and who.broker_id != MASTER_ID
        for topic, config in topics.items():
            self._topics.tell(topic, _queues_of(broker.name, config, is_read_only=is_read_only), anew=is_new)
        for topic, mapping in registration.mappings.items():
            self._topics.tell_mapping(topic, broker.name, mapping)

    def _master_of(self, broker: _Broker) -> Registered:
        address = broker.addresses.get(MASTER_ID)
        live = None if address is None else self._live.get((broker.name, address))
        return Registered() if live is None else Registered(address, live.ha_address)

    def _filter_servers(self, brokers: Iterable[RoutedBroker]) -> dict[str, tuple[str, ...]]:
        found = {}
        for broker in brokers:
            for address in broker.addresses.values():
                live = self._live.get((broker.name, address))
                if live is not None and live.filter_servers:
                    found[address] = live.filter_servers
        return found

    def _names_in(self, cluster: str) -> list[str]:
        return [name for name, broker in self._brokers.items() if broker.cluster == cluster]


def _queues_of(broker: str, config: TopicConfig, *, is_read_only: bool) -> RoutedQueues:
    permission = int(config.permission) & (~Permission.WRITE if is_read_only else ~0)
    return RoutedQueues(broker, config.read_queues, config.write_queues, permission, config.sys_flag)
