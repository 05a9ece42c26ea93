"""Consumer groups: which there are, who is in them, how far they are; making, deleting and moving them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from embermq.admin.cluster import Cluster
from embermq.client.answers import check_answer
from embermq.client.pulling import make_subscribed, pull
from embermq.client.reader import READER_GROUP
from embermq.errors import EmberError, GroupNotFound, NotOnline
from embermq.format.connection_body import Connected, ConsumerConnections, decode_consumer_connections
from embermq.format.consume_stats_body import QueueProgress, decode_consume_stats
from embermq.format.json_fields import Fields, parse_fields
from embermq.format.tables import decode_groups
from embermq.format.wire_json import BrokerQueue, read_queue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.group import GroupConfig
from embermq.model.subscription import Subscribed
from embermq.model.topic import RETRY_PREFIX

_INFO_S: Final = 5.0  # how long the members may take to tell about themselves


class GroupLine(NamedTuple):
    """A group in a list."""

    group: str
    members: int
    lag: int | None  # messages; None if it cannot be told


class QueueLag(NamedTuple):
    """How far a group is behind in one queue."""

    queue: BrokerQueue
    offset: int  # the next to consume
    end: int
    lag: int  # messages
    lag_ms: int | None  # the age of the oldest message that is not consumed; None if there is none
    client_id: str | None  # who reads it


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group: its settings, its members with what each reads, and its lag."""

    group: str
    configs: Mapping[str, GroupConfig]  # by broker
    members: tuple[Connected, ...]
    consume_type: str | None
    message_model: str | None
    subscriptions: Mapping[str, Subscribed]
    conflicts: tuple[str, ...]  # members that want different things, which loses messages
    queues: tuple[QueueLag, ...]
    rate: float

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)

    @property
    def lag_ms(self) -> int | None:
        return max((queue.lag_ms for queue in self.queues if queue.lag_ms is not None), default=None)


async def list_groups(cluster: Cluster) -> list[GroupLine]:
    """Every group that a broker knows, by name."""
    names: set[str] = set()
    for broker in await cluster.brokers():
        answer = await cluster.ask(broker.address, RequestCode.GET_ALL_GROUP_CONFIG)
        names |= decode_groups(check_answer(answer, f"groups of {broker.name}").data).groups.keys()
    return [await _line(cluster, name) for name in sorted(names)]


async def _line(cluster: Cluster, group: str) -> GroupLine:
    members: set[str] = set()
    lag = 0
    for broker in await cluster.brokers():
        connections = await find_connections(cluster, broker.address, group)
        members |= {client.client_id for client in connections.clients} if connections else set()
        answer = await cluster.ask(broker.address, RequestCode.GET_CONSUME_STATS, {"consumerGroup": group})
        if answer.code == ResponseCode.SUCCESS:
            lag += decode_consume_stats(answer.data).difference
    return GroupLine(group, len(members), lag)


async def show_group(cluster: Cluster, group: str) -> GroupView:
    """Raises GroupNotFound."""
    configs: dict[str, GroupConfig] = {}
    members: dict[str, Connected] = {}
    online: ConsumerConnections | None = None
    found: list[tuple[BrokerQueue, QueueProgress, str]] = []
    rate = 0.0
    for broker in await cluster.brokers():
        config = await find_config(cluster, broker.address, group)
        if config is None:
            continue
        configs[broker.name] = config
        connections = await find_connections(cluster, broker.address, group)
        if connections is not None:
            online = connections
            members |= {client.client_id: client for client in connections.clients}
        answer = await cluster.ask(broker.address, RequestCode.GET_CONSUME_STATS, {"consumerGroup": group})
        stats = decode_consume_stats(check_answer(answer, f"lag of {group!r}", group=group).data)
        rate += stats.rate
        found += ((queue, progress, broker.address) for queue, progress in stats.queues.items())
    if not configs:
        raise GroupNotFound(group)
    owners, conflicts = await _ask_members(cluster, group, members)
    lags = await asyncio.gather(*(_lag(cluster, *each, owners.get(each[0])) for each in sorted(found)))
    return GroupView(
        group,
        configs,
        tuple(members[name] for name in sorted(members)),
        online.consume_type if online else None,
        online.message_model if online else None,
        online.subscriptions if online else {},
        conflicts,
        tuple(lags),
        rate,
    )


async def find_config(cluster: Cluster, address: str, group: str) -> GroupConfig | None:
    answer = await cluster.ask(address, RequestCode.GET_ALL_GROUP_CONFIG)
    return decode_groups(check_answer(answer, "list of groups").data).groups.get(group)


async def find_connections(cluster: Cluster, address: str, group: str) -> ConsumerConnections | None:
    """The members that are connected to one broker; None if there is none."""
    answer = await cluster.ask(address, RequestCode.GET_CONSUMER_CONNECTIONS, {"consumerGroup": group})
    try:
        return decode_consumer_connections(check_answer(answer, f"members of {group!r}", group=group).data)
    except NotOnline:
        return None


async def _ask_members(
    cluster: Cluster, group: str, members: Mapping[str, Connected]
) -> tuple[dict[BrokerQueue, str], tuple[str, ...]]:
    """Who reads which queue, and which members want something else than the others."""
    brokers = await cluster.brokers()
    owners: dict[BrokerQueue, str] = {}
    wants: dict[str, dict[str, str]] = {}
    for client_id in sorted(members):
        fields = await _running_info(cluster, [broker.address for broker in brokers], group, client_id)
        if fields is None:
            continue
        for key, _ in fields.items("mqTable"):
            owners[read_queue(key, "mqTable")] = client_id
        wants[client_id] = _wanted(fields)
    return owners, find_conflicts(wants)


async def _running_info(cluster: Cluster, addresses: list[str], group: str, client_id: str) -> Fields | None:
    """What a member tells of itself; None if it does not."""
    fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "false"}
    for address in addresses:
        try:
            answer = await cluster.connections.call(
                address, RequestCode.GET_CONSUMER_RUNNING_INFO, fields, timeout_s=_INFO_S
            )
        except EmberError:
            continue  # an old client, or one that hangs; its lag is known all the same
        if answer.code == ResponseCode.SUCCESS and answer.data:
            return parse_fields(answer.data, f"status of {client_id}")
    return None


def _wanted(fields: Fields) -> dict[str, str]:
    """The filter of each topic; a group's own retries are the same for all."""
    found = {}
    for value in fields.find_list("subscriptionSet") or []:
        each = Fields(value, "subscription")
        topic = each.text("topic", "")
        if not topic.startswith(RETRY_PREFIX):
            found[topic] = each.text("subString", "*")
    return found


def find_conflicts(wants: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Lines that say which members want different topics or different messages of one."""
    distinct: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for client_id, filters in sorted(wants.items()):
        distinct.setdefault(tuple(sorted(filters.items())), []).append(client_id)
    if len(distinct) < 2:
        return ()
    return tuple(
        f"{', '.join(clients)}: {', '.join(f'{topic} with {text!r}' for topic, text in filters) or 'nothing'}"
        for filters, clients in distinct.items()
    )


async def _lag(
    cluster: Cluster, queue: BrokerQueue, progress: QueueProgress, address: str, client_id: str | None
) -> QueueLag:
    lag = max(0, progress.broker_offset - max(progress.consumer_offset, 0))
    lag_ms = await _age(cluster, address, queue, max(progress.consumer_offset, 0)) if lag else None
    return QueueLag(queue, progress.consumer_offset, progress.broker_offset, lag, lag_ms, client_id)


async def _age(cluster: Cluster, address: str, queue: BrokerQueue, offset: int) -> int | None:
    """How old the first message from `offset` on is."""
    pulled = await pull(
        cluster.connections,
        address,
        queue,
        offset,
        group=READER_GROUP,
        wanted=make_subscribed(queue.topic, None),
        is_inline=True,
        limit=1,
    )
    if not pulled.messages:
        return None
    return max(0, time.time_ns() // 1_000_000 - pulled.messages[0].store_time_ms)
