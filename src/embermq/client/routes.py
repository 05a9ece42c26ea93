"""Which broker serves which queue of which topic, as the name servers tell.

Routes are kept, looked at again after a while, and at once when a broker turns out not to be there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

from embermq.client.answers import check_answer
from embermq.client.connections import Connections
from embermq.errors import NoRoute, TopicNotFound, TransportError
from embermq.format.cluster_body import decode_topic_list
from embermq.format.route_body import decode_route
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.route import TopicRoute
from embermq.model.topic import TEMPLATE_TOPIC

log = logging.getLogger(__name__)

FRESH_S: Final = 30.0  # how long a route is taken without asking again
SOONEST_S: Final = 0.2  # between two refreshes of one topic
LARGEST_TEMPLATE: Final = 4  # queues that a topic made on the fly gets, as with RocketMQ's clients


@dataclass(frozen=True, slots=True)
class Route:
    """What a client needs of a topic's route."""

    topic: str
    write_queues: tuple[BrokerQueue, ...]  # in the order that messages take turns in
    read_queues: tuple[BrokerQueue, ...]
    masters: dict[str, str]  # addresses by the broker's name
    readers: dict[str, str]  # the same, and that of a slave where the master is away
    is_template: bool = False  # the topic does not exist; sending makes it

    def address_of(self, broker: str, *, may_be_slave: bool = False) -> str:
        """Raises NoRoute if the broker is not there."""
        addresses = self.readers if may_be_slave else self.masters
        if broker not in addresses:
            raise NoRoute(f"broker {broker!r}, which has queues of topic {self.topic!r}, is not there now")
        return addresses[broker]


def make_route(topic: str, route: TopicRoute) -> Route:
    """The queues of `topic` that can be written and read."""
    masters = {broker.name: broker.master for broker in route.brokers if broker.master is not None}
    readers = {broker.name: broker.addresses[min(broker.addresses)] for broker in route.brokers if broker.addresses}
    write: list[BrokerQueue] = []
    read: list[BrokerQueue] = []
    for queues in sorted(route.queues, key=lambda each: each.broker):
        if queues.is_writable and queues.broker in masters:
            write += (BrokerQueue(queues.broker, topic, number) for number in range(queues.write_queues))
        if queues.is_readable:
            read += (BrokerQueue(queues.broker, topic, number) for number in range(queues.read_queues))
    # Turns go from broker to broker, so that neighbours in a batch of sends are not all at one.
    write.sort(key=lambda queue: (queue.queue, queue.broker))
    return Route(topic, tuple(write), tuple(read), masters, readers)


class Routes:
    """The routes that one client has asked for."""

    def __init__(self, connections: Connections, name_servers: list[str], *, timeout_s: float) -> None:
        self._connections = connections
        self._name_servers = list(name_servers)
        self._timeout_s = timeout_s
        self.has_answered = False  # any name server, ever
        self._known: dict[str, tuple[Route, float]] = {}  # with the time of asking
        self._asking: dict[str, asyncio.Lock] = {}

    async def read(self, topic: str) -> Route:
        """The route of a topic that must exist. Raises TopicNotFound or a TransportError."""
        route = await self.find(topic)
        if route is None:
            raise TopicNotFound(topic, await self._nearest(topic))
        return route

    async def find(self, topic: str, *, refresh: bool = False) -> Route | None:
        """The route of a topic, or None if no broker has it."""
        lock = self._asking.setdefault(topic, asyncio.Lock())
        async with lock:
            known = self._known.get(topic)
            if known is not None:
                age = time.monotonic() - known[1]
                if age < (SOONEST_S if refresh else FRESH_S):
                    return known[0]
            try:
                route = await self._ask(topic)
            except TransportError as error:
                if known is None:
                    raise
                log.warning("route not refreshed topic=%s cause=%s", topic, error)  # the old one may still do
                return known[0]
            if route is None:
                self._known.pop(topic, None)
            else:
                self._known[topic] = route, time.monotonic()
            return route

    async def find_writable(self, topic: str, *, refresh: bool = False) -> Route:
        """Where to send: the topic's queues, or, if it does not exist, those it will get when it is made.

        Raises TopicNotFound if topics are not made on the fly, NoRoute if no broker takes messages.
        """
        route = await self.find(topic, refresh=refresh)
        if route is None:
            template = await self.find(TEMPLATE_TOPIC, refresh=refresh)
            if template is None:
                raise TopicNotFound(topic, await self._nearest(topic))
            new = [queue._replace(topic=topic) for queue in template.write_queues]
            queues = tuple(queue for queue in new if queue.queue < LARGEST_TEMPLATE)
            route = Route(topic, queues, (), template.masters, template.readers, is_template=True)
        if not route.write_queues:
            raise NoRoute(f"topic {topic!r} has no queue that can be written: its permission or its brokers forbid it")
        return route

    def forget(self, topic: str) -> None:
        """Ask anew the next time."""
        self._known.pop(topic, None)

    async def _ask(self, topic: str) -> Route | None:
        answer = await self._connections.call_any(
            self._name_servers, RequestCode.GET_ROUTE_BY_TOPIC, {"topic": topic}, timeout_s=self._timeout_s
        )
        self.has_answered = True
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        check_answer(answer, f"route of topic {topic!r}", topic=topic)
        return make_route(topic, decode_route(answer.data))

    async def _nearest(self, topic: str) -> str | None:
        """A topic that is spelled almost like this one, for the message of an error."""
        from difflib import get_close_matches

        try:
            answer = await self._connections.call_any(
                self._name_servers, RequestCode.GET_ALL_TOPICS_FROM_NAMESERVER, timeout_s=self._timeout_s
            )
            check_answer(answer, "list of topics")
        except TransportError:
            return None  # it is about a hint; the error itself is already known
        return next(iter(get_close_matches(topic, decode_topic_list(answer.data), n=1)), None)
