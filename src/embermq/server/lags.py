"""How far each group is behind in each topic that it reads, in messages and in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from embermq.store.offsets import ConsumerOffsets
from embermq.store.store import Store


class Lag(NamedTuple):
    """Of one group in one topic, all queues together."""

    group: str
    topic: str
    messages: int  # stored, not consumed
    in_flight: int  # of these: pulled
    ready: int  # of these: not pulled
    latency_ms: int  # age of the oldest that is not consumed
    waiting_ms: int  # age of the oldest that is not pulled


def iter_lags(store: Store, offsets: ConsumerOffsets, now_ms: int) -> Iterator[Lag]:
    """The lag of every group in every topic of which it has an offset."""
    for (topic, group), queues in offsets.table().offsets.items():
        if store.find_topic(topic) is None:
            continue
        messages = in_flight = 0
        oldest = oldest_ready = now_ms
        for queue, committed in queues.items():
            begin, end = store.offsets(topic, queue=queue)
            consumed = min(max(committed, begin), end)
            pulled = min(max(offsets.pull_offset(topic, group, queue), consumed), end)
            messages += end - consumed
            in_flight += pulled - consumed
            oldest = min(oldest, _time_at(store, topic, queue, consumed, end, now_ms))
            oldest_ready = min(oldest_ready, _time_at(store, topic, queue, pulled, end, now_ms))
        yield Lag(group, topic, messages, in_flight, messages - in_flight, now_ms - oldest, now_ms - oldest_ready)


def _time_at(store: Store, topic: str, queue: int, offset: int, end: int, now_ms: int) -> int:
    """When the message at `offset` was stored; now, if there is none yet."""
    found = store.store_time(topic, queue=queue, offset=offset) if offset < end else None
    return now_ms if found is None else found
