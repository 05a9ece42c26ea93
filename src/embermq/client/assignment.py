"""Who of a group reads which queues.

Every member works it out for itself from the same two lists, so all must sort and divide alike, members
that are RocketMQ's clients included: neighbouring queues stay together, and the first members get
one more when they do not divide evenly.

    5 queues, 2 members    a: 0 1 2    b: 3 4
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from embermq.format.wire_json import BrokerQueue


def name_of(queue: BrokerQueue) -> str:
    """A queue in a message or a log line."""
    return f"{queue.topic}/{queue.broker}/{queue.queue}"


def assign_queues(queues: Collection[BrokerQueue], members: Collection[str], member: str) -> list[BrokerQueue]:
    """The queues that are for `member` to read; none if it is no member, or there are too many of them."""
    ordered_members = sorted(set(members), key=_java_order)
    if member not in ordered_members:
        return []
    ordered_queues = sorted(queues, key=_queue_order)
    return _share(ordered_queues, ordered_members.index(member), len(ordered_members))


def _share(queues: Sequence[BrokerQueue], index: int, count: int) -> list[BrokerQueue]:
    size, rest = divmod(len(queues), count)
    begin = index * size + min(index, rest)
    return list(queues[begin : begin + size + (index < rest)])


def _queue_order(queue: BrokerQueue) -> tuple[bytes, bytes, int]:
    return _java_order(queue.topic), _java_order(queue.broker), queue.queue


def _java_order(text: str) -> bytes:
    # Java compares UTF-16 units, which differs from code points for characters outside the first plane.
    return text.encode("utf-16-be", "surrogatepass")
