"""How far pops were when the broker ended: what the checkpoints say that came after offsets were saved last.

    offsets saved by us          they tell the log position that they know everything before
    saved by RocketMQ            they know what was stored before the file was written

A checkpoint names the offsets that it gave away, so pops go on behind them: without that, a crash would
give messages to others while somebody has them, or after they were acknowledged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from embermq.errors import CorruptRecord, OutOfRange
from embermq.format.pop_records import CHECKPOINT_TAG, decode_checkpoint
from embermq.format.queue_entry import QueueEntry
from embermq.model.hashing import java_hash
from embermq.model.pop import Checkpoint
from embermq.model.topic import TIMER_TOPIC
from embermq.store.offsets import ConsumerOffsets
from embermq.store.store import Store

log = logging.getLogger(__name__)

_TAG_CODE: Final = java_hash(CHECKPOINT_TAG)
_AT_ONCE: Final = 1000


def recover_progress(store: Store, offsets: ConsumerOffsets, *, revive_topic: str) -> int:
    """Move the offsets of groups behind what was popped; returns how many checkpoints told something new."""
    moved = 0
    for checkpoint in _newer_checkpoints(store, offsets, revive_topic):
        topic, group, queue, *_ = checkpoint.delivery
        next_offset = max(checkpoint.offsets, default=-1) + 1
        known = offsets.find(topic, group, queue)
        if next_offset > (known if known is not None else -1) and not offsets.is_reset(topic, group, queue):
            offsets.commit(topic, group, queue, next_offset)
            moved += 1
    if moved:
        log.info("pops went on behind what was saved checkpoints=%d", moved)
    return moved


def _newer_checkpoints(store: Store, offsets: ConsumerOffsets, revive_topic: str) -> Iterator[Checkpoint]:
    position, saved_ms = offsets.saved_position, offsets.saved_ms
    for topic in (TIMER_TOPIC, revive_topic):
        for queue in store.queues(topic):
            for entry in _backwards(store, topic, queue):
                if entry.position < position if position is not None else _store_time(store, entry) < saved_ms:
                    break
                if entry.tags_code == _TAG_CODE and (found := _read(store, entry)) is not None:
                    yield found


def _backwards(store: Store, topic: str, queue: int) -> Iterator[QueueEntry]:
    low, high = store.offsets(topic, queue=queue)
    while high > low:
        begin = max(low, high - _AT_ONCE)
        entries = store.entries(topic, queue=queue, offset=begin, limit=high - begin)
        yield from (entry for entry in reversed(entries) if isinstance(entry, QueueEntry))
        high = begin


def _store_time(store: Store, entry: QueueEntry) -> int:
    try:
        return store.read_record(entry.position).store_time
    except (OutOfRange, CorruptRecord):
        return 0


def _read(store: Store, entry: QueueEntry) -> Checkpoint | None:
    try:
        return decode_checkpoint(store.read_record(entry.position).body)
    except (OutOfRange, CorruptRecord) as error:
        log.warning("checkpoint of pops cannot be read position=%d reason=%s", entry.position, error)
        return None
