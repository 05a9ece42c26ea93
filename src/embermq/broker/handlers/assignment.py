"""Who reads which queues, for clients that leave it to the broker, and in which mode."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from embermq.broker.handlers.paging import read_body
from embermq.broker.membership import Membership
from embermq.broker.request_modes import RequestModes
from embermq.broker.topics import BrokerTopics
from embermq.errors import GroupNotFound, NotPermitted
from embermq.format.assignment_body import (
    POP,
    PULL,
    Assigned,
    AssignmentQuery,
    RequestMode,
    decode_mode,
    decode_query,
    encode_assignment,
    encode_modes,
)
from embermq.format.command import Command, make_answer
from embermq.format.heartbeat_body import BROADCASTING
from embermq.format.wire_json import BrokerQueue
from embermq.model.assignment import share, share_for_pop
from embermq.model.codes import RequestCode
from embermq.model.topic import RETRY_PREFIX, is_light_queue
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler
from embermq.store.groups import Groups

log = logging.getLogger(__name__)

ALL_QUEUES = -1
QueuesOf = Callable[[str], Sequence[BrokerQueue]]


class AssignmentHandlers:
    """Shares the queues of a topic among the members of a group."""

    def __init__(
        self,
        topics: BrokerTopics,
        groups: Groups,
        membership: Membership,
        modes: RequestModes,
        *,
        broker_name: str,
        queues_of: QueuesOf | None = None,
        serves_pop: bool = False,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._membership = membership
        self._modes = modes
        self._broker_name = broker_name
        self._queues_of = queues_of or self._own_queues  # of all brokers, where there are more than this one
        self._serves_pop = serves_pop  # without it, a group that was set to POP goes on with PULL

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.list_modes,
        }

    def query(self, peer: Peer, request: Command) -> Command:
        """The queues of one client."""
        return make_answer(request, body=encode_assignment(self._assign(read_body(request.data, decode_query))))

    def set_mode(self, peer: Peer, request: Command) -> Command:
        """How a group takes the messages of a topic from now on."""
        mode = read_body(request.data, decode_mode)
        if mode.topic.startswith(RETRY_PREFIX):
            raise NotPermitted(f"topic {mode.topic[:200]!r} is always read by PULL; set the mode of the topic itself")
        self._topics.read(mode.topic)
        if self._groups.find(mode.group) is None:
            raise GroupNotFound(mode.group)
        self._modes.set(mode)
        log.info("mode set topic=%s group=%s mode=%s by=%s", mode.topic, mode.group, mode.mode, peer.peer)
        return make_answer(request)

    def list_modes(self, peer: Peer, request: Command) -> Command:
        return make_answer(request, body=encode_modes(self._modes.table()))

    def _assign(self, query: AssignmentQuery) -> list[Assigned] | None:
        """None where nothing can be said: no such topic, nobody of the group there, an unknown strategy."""
        queues_of = self._own_queues if is_light_queue(query.topic) else self._queues_of  # no other broker has it
        queues = sorted(queues_of(query.topic), key=lambda each: (each.topic, each.broker, each.queue))
        if not queues:
            return None
        mode = self._mode(query)
        if query.message_model == BROADCASTING:
            return [Assigned(queue, mode.mode) for queue in queues]
        clients = sorted(self._membership.consumer_ids(query.group))
        if not clients:
            return None
        found = self._share(query, queues, clients, mode)
        return None if found is None else [Assigned(queue, mode.mode) for queue in found]

    def _share(
        self, query: AssignmentQuery, queues: list[BrokerQueue], clients: list[str], mode: RequestMode
    ) -> list[BrokerQueue] | None:
        if mode.mode != POP:
            return share(query.strategy, queues, clients, query.client_id)
        if 0 < mode.shared_queues < len(clients) - 1:
            return share_for_pop(query.strategy, queues, clients, query.client_id, extra=mode.shared_queues)
        return [BrokerQueue(broker, query.topic, ALL_QUEUES) for broker in sorted({each.broker for each in queues})]

    def _mode(self, query: AssignmentQuery) -> RequestMode:
        found = self._modes.find(query.topic, query.group) if self._serves_pop else None
        return found or RequestMode(query.topic, query.group, PULL)

    def _own_queues(self, topic: str) -> Sequence[BrokerQueue]:
        found = self._topics.find(topic)
        count = found.read_queues if found else 0
        return [BrokerQueue(self._broker_name, topic, queue) for queue in range(count)]
