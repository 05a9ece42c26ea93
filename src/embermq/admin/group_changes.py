"""Changing consumer groups: making and deleting them, and having them go on elsewhere."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Literal, NamedTuple

from embermq.admin.cluster import Cluster
from embermq.admin.groups import find_config, find_connections
from embermq.admin.topics import remove_topic
from embermq.client.answers import check_answer
from embermq.errors import GroupNotFound, NotPermitted
from embermq.format.consume_stats_body import QueueProgress, decode_consume_stats
from embermq.format.group_json import group_members
from embermq.format.offset_table_body import decode_offset_table
from embermq.format.wire_json import BrokerQueue, encode_body
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.group import GroupConfig, check_group
from embermq.model.topic import DEAD_LETTER_PREFIX, RETRY_PREFIX

Target = Literal["earliest", "latest"] | datetime | int  # an int is an offset


async def create_group(cluster: Cluster, config: GroupConfig) -> list[str]:
    """Make a group at every broker; their names. Raises NotPermitted if there is one already."""
    check_group(config.name)
    brokers = await cluster.brokers()
    for broker in brokers:
        if await find_config(cluster, broker.address, config.name) is not None:
            raise NotPermitted(f"group {config.name!r} exists already at {broker.name}")
    for broker in brokers:
        body = encode_body(group_members(config))
        answer = await cluster.ask(broker.address, RequestCode.UPDATE_AND_CREATE_GROUP, body=body)
        check_answer(answer, f"group {config.name!r} at {broker.name}", group=config.name)
    return [broker.name for broker in brokers]


async def delete_group(cluster: Cluster, group: str) -> None:
    """Delete a group with its offsets, retries and dead letters.

    Raises GroupNotFound, or NotPermitted while somebody is in it.
    """
    brokers = await cluster.brokers()
    known = False
    for broker in brokers:
        known |= await find_config(cluster, broker.address, group) is not None
        connections = await find_connections(cluster, broker.address, group)
        if connections is not None and connections.clients:
            names = ", ".join(client.client_id for client in connections.clients)
            raise NotPermitted(f"group {group!r} is in use by {names}; stop them first")
    if not known:
        raise GroupNotFound(group)
    for broker in brokers:
        fields = {"groupName": group, "cleanOffset": "true"}
        answer = await cluster.ask(broker.address, RequestCode.DELETE_GROUP, fields)
        check_answer(answer, f"deletion of group {group!r} at {broker.name}", group=group)
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        await remove_topic(cluster, f"{prefix}{group}")


class Move(NamedTuple):
    """Where a group goes on in one queue."""

    queue: BrokerQueue
    before: int | None  # None if it never read the queue
    after: int


async def plan_reset(
    cluster: Cluster, group: str, topic: str, target: Target, *, queue: int | None = None
) -> list[Move]:
    """What `reset_group` would do. Raises TopicNotFound or GroupNotFound."""
    route = await cluster.routes.read(topic)
    masters = await cluster.masters_of(topic)
    stats: dict[BrokerQueue, QueueProgress] = {}
    is_known = False
    for address in masters.values():
        is_known |= await find_config(cluster, address, group) is not None
        fields = {"consumerGroup": group, "topic": topic}
        answer = await cluster.ask(address, RequestCode.GET_CONSUME_STATS, fields)
        if answer.code == ResponseCode.SUCCESS:
            stats |= decode_consume_stats(answer.data).queues
    if not is_known:
        raise GroupNotFound(group)
    moves = []
    for each in route.read_queues:
        if each.broker not in masters or (queue is not None and each.queue != queue):
            continue
        before = stats[each].consumer_offset if each in stats and stats[each].consumer_offset >= 0 else None
        moves.append(Move(each, before, await _offset_of(cluster, masters[each.broker], each, target)))
    return moves


async def _offset_of(cluster: Cluster, address: str, queue: BrokerQueue, target: Target) -> int:
    if not isinstance(target, int):
        return await cluster.offsets.start(address, queue, target)
    low, high = await asyncio.gather(cluster.offsets.min(address, queue), cluster.offsets.max(address, queue))
    return min(max(target, low), high)


async def reset_group(cluster: Cluster, group: str, moves: list[Move]) -> list[Move]:
    """Have a group go on elsewhere, whether its members are there or not; what was done."""
    masters = await cluster.masters_of(moves[0].queue.topic) if moves else {}
    done = []
    for move in moves:
        fields = {
            "topic": move.queue.topic,
            "group": group,
            "queueId": str(move.queue.queue),
            "offset": str(move.after),
            "timestamp": "0",
            "isForce": "true",
        }
        answer = await cluster.ask(masters[move.queue.broker], RequestCode.RESET_OFFSET, fields)
        body = check_answer(answer, f"reset of {group!r}", topic=move.queue.topic, group=group).data
        done.append(move._replace(after=decode_offset_table(body).get(move.queue, move.after)))
    return done
