"""What name servers tell, for code that waits."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Final

from embermq.client.answers import check_answer
from embermq.client.blocking import BrokerLine
from embermq.client.connections import Credentials
from embermq.client.routes import Route, make_route
from embermq.errors import ReadLost
from embermq.format.cluster_body import decode_clusters, decode_topic_list
from embermq.format.command import Command
from embermq.format.route_body import decode_route
from embermq.model.codes import RequestCode, ResponseCode

PATIENCE_S: Final = 3.0  # for one name server


class BlockingRoutes:
    """Asks name servers, the one that answered last first."""

    def __init__(
        self, addresses: Sequence[str], *, credentials: Credentials | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._lines = [
            BrokerLine(address, credentials=credentials, tls=tls, patience_s=PATIENCE_S) for address in addresses
        ]

    def find_route(self, topic: str) -> Route | None:
        """Who serves a topic; None if nobody does. Raises ReadLost if no name server answers."""
        answer = self._call(RequestCode.GET_ROUTE_BY_TOPIC, {"topic": topic}, what=f"the route of topic {topic!r}")
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return make_route(topic, decode_route(check_answer(answer, f"the route of topic {topic!r}").data))

    def find_brokers(self) -> dict[str, str]:
        """The addresses of all brokers by name: of the master, or of a copy where it is away. Raises ReadLost."""
        answer = self._call(RequestCode.GET_BROKER_CLUSTER_INFO, {}, what="the cluster")
        brokers = decode_clusters(check_answer(answer, "the cluster").data).brokers
        return {name: broker.addresses[min(broker.addresses)] for name, broker in brokers.items() if broker.addresses}

    def find_topics(self) -> tuple[str, ...]:
        """All topics. Raises ReadLost."""
        answer = self._call(RequestCode.GET_ALL_TOPICS_FROM_NAMESERVER, {}, what="the list of topics")
        return decode_topic_list(check_answer(answer, "the list of topics").data)

    def _call(self, code: int, fields: Mapping[str, str], *, what: str) -> Command:
        failures = []
        for line in list(self._lines):
            try:
                (answer,) = line.call_all(code, [fields], what=what)
            except ReadLost as error:
                failures.append(error)
                self._lines.remove(line)
                self._lines.append(line)
                continue
            return answer
        raise failures[0]
