"""Clients: their heartbeats, their locks on queues, and who is connected."""

from __future__ import annotations

from collections.abc import Iterable

from embermq.broker.consumer_group import Client
from embermq.broker.handlers.paging import read_body
from embermq.broker.locks import QueueLocks
from embermq.broker.membership import Membership
from embermq.broker.settings import BrokerSettings
from embermq.broker.sql_wanted import check_kind
from embermq.clock import Clock
from embermq.errors import NotOnline
from embermq.filters import parse_sql
from embermq.format.command import Command, make_answer
from embermq.format.connection_body import (
    Connected,
    ConsumerConnections,
    ProducerEntry,
    encode_all_producers,
    encode_consumer_connections,
    encode_consumer_ids,
    encode_producer_connections,
)
from embermq.format.heartbeat_body import decode_heartbeat, read_subscribed
from embermq.format.json_fields import parse_fields
from embermq.format.lock_body import decode_lock_request, encode_locked
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.subscription import Subscribed
from embermq.rpc.fields import read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler


class ClientHandlers:
    """Answers what clients say of themselves, and what administrators ask about them."""

    def __init__(self, membership: Membership, locks: QueueLocks, settings: BrokerSettings, *, clock: Clock) -> None:
        self.settings = settings  # replaced when one is changed at run time
        self._membership = membership
        self._locks = locks
        self._clock = clock

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.list_consumers,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_config,
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
            RequestCode.GET_CONSUMER_CONNECTIONS: self.show_consumers,
            RequestCode.GET_PRODUCER_CONNECTIONS: self.show_producers,
            RequestCode.GET_ALL_PRODUCERS: self.show_all_producers,
        }

    def heartbeat(self, peer: Peer, request: Command) -> Command:
        is_full_wanted = self._membership.heartbeat(peer, request, read_body(request.data, decode_heartbeat))
        is_changed = "true" if is_full_wanted else "false"
        return make_answer(request, fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": is_changed})

    def unregister(self, peer: Peer, request: Command) -> Command:
        fields = request.fields
        client_id = read_text(fields, "clientID")
        self._membership.unregister(peer, client_id, fields.get("producerGroup"), fields.get("consumerGroup"))
        return make_answer(request)

    def list_consumers(self, peer: Peer, request: Command) -> Command:
        group = read_text(request.fields, "consumerGroup")
        client_ids = self._membership.consumer_ids(group)
        if not client_ids:
            return make_answer(request, ResponseCode.SYSTEM_ERROR, remark=f"no consumer for this group, {group[:255]}")
        return make_answer(request, body=encode_consumer_ids(client_ids))

    def check_config(self, peer: Peer, request: Command) -> Command:
        """Whether the broker can evaluate what a consumer subscribes to. Raises IllegalFilter or FiltersOff."""
        wanted = read_body(request.data, _decode_config)
        if wanted is None or wanted.is_tags:
            return make_answer(request)
        check_kind(wanted.expression_type, self.settings)
        parse_sql(wanted.expression)
        return make_answer(request)

    def lock(self, peer: Peer, request: Command) -> Command:
        wanted = read_body(request.data, decode_lock_request)
        owned = self._locks.lock(wanted.group, wanted.client_id, wanted.queues)
        return make_answer(request, body=encode_locked(owned))

    def unlock(self, peer: Peer, request: Command) -> Command:
        given = read_body(request.data, decode_lock_request)
        self._locks.unlock(given.group, given.client_id, given.queues)
        return make_answer(request)

    def show_consumers(self, peer: Peer, request: Command) -> Command:
        name = read_text(request.fields, "consumerGroup")
        group = self._membership.consumer(name)
        if group is None:
            raise NotOnline(f"the consumer group[{name[:255]}] not online")
        connections = ConsumerConnections(
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from=group.consume_from,
            clients=_connected(group.members.values()),
            subscriptions=group.subscriptions,
        )
        return make_answer(request, body=encode_consumer_connections(connections))

    def show_producers(self, peer: Peer, request: Command) -> Command:
        group = read_text(request.fields, "producerGroup")
        clients = self._membership.producers(group)
        if not clients:
            return make_answer(
                request, ResponseCode.SYSTEM_ERROR, remark=f"the producer group[{group[:255]}] not exist"
            )
        return make_answer(request, body=encode_producer_connections(_connected(clients)))

    def show_all_producers(self, peer: Peer, request: Command) -> Command:
        groups = {group: self._entries(group) for group in self._membership.producer_groups()}
        return make_answer(request, body=encode_all_producers(groups))

    def _entries(self, group: str) -> list[ProducerEntry]:
        now_ms, now = self._clock.now_ms(), self._clock.monotonic()
        return [
            ProducerEntry(
                client_id=client.client_id,
                language=client.language,
                version=client.version,
                address=f"/{client.peer.peer}",  # as Java writes addresses
                seen_ms=now_ms - int((now - client.seen) * 1000),
            )
            for client in self._membership.producers(group)
        ]


def _decode_config(data: bytes) -> Subscribed | None:
    """What a consumer that starts subscribes to, if it says so. Raises CorruptRecord."""
    subscription = parse_fields(data, "client configuration").find_fields("subscriptionData")
    return None if subscription is None else read_subscribed(subscription.members, "subscriptionData")


def _connected(clients: Iterable[Client]) -> tuple[Connected, ...]:
    return tuple(
        Connected(str(client.peer.peer), client.client_id, client.language, client.version) for client in clients
    )
