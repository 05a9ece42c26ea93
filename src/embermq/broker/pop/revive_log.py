"""Checkpoints and acks on their way into the log.

    time not come    ─→ rmq_sys_wheel_timer, parked until then ─→ the timer ─→ rmq_sys_REVIVE_LOG_<cluster>
    time has come    ─→ rmq_sys_REVIVE_LOG_<cluster>

Both are RocketMQ's records, so that either broker goes on with what the other wrote.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from embermq.clock import Clock
from embermq.format.pop_records import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_TAG,
    ack_key,
    checkpoint_properties,
    direct_properties,
    encode_ack,
    encode_checkpoint,
    parked_properties,
)
from embermq.format.record import DraftFields
from embermq.model.pop import Ack, Checkpoint, revive_topic_of
from embermq.model.topic import TIMER_TOPIC

_TIMER_TOPIC: Final = TIMER_TOPIC.encode()


class ReviveLog:
    """Makes the drafts of checkpoints and acks, and deals out the revive queues."""

    def __init__(self, *, cluster: str, queues: int, host: bytes, clock: Clock) -> None:
        self.topic = revive_topic_of(cluster)
        self.queues = queues
        self._topic = self.topic.encode()
        self._host = host
        self._clock = clock
        self._turn = -1
        self.written: Counter[tuple[int, str]] = Counter()  # records by queue and kind

    def next_queue(self) -> int:
        """The revive queue of the next pop."""
        self._turn = (self._turn + 1) % self.queues
        return self._turn

    def checkpoint(self, checkpoint: Checkpoint, revive_queue: int) -> DraftFields:
        key, deliver_ms = checkpoint_properties(checkpoint)
        return self._draft(
            encode_checkpoint(checkpoint), revive_queue, tag=CHECKPOINT_TAG, key=key, deliver_ms=deliver_ms
        )

    def ack(self, ack: Ack, revive_queue: int, *, deliver_ms: int) -> DraftFields:
        """The record of an ack, for when the messages of its checkpoint are due."""
        tag = ACK_TAG if len(ack.offsets) == 1 else BATCH_ACK_TAG
        return self._draft(encode_ack(ack), revive_queue, tag=tag, key=ack_key(ack), deliver_ms=deliver_ms)

    def _draft(self, body: bytes, revive_queue: int, *, tag: str, key: str, deliver_ms: int) -> DraftFields:
        now = self._clock.now_ms()
        self.written[revive_queue, tag] += 1
        if deliver_ms > now:
            properties = parked_properties(self.topic, revive_queue, tag=tag, key=key, deliver_ms=deliver_ms)
            return (_TIMER_TOPIC, 0, body, properties, 0, 0, now, self._host, 0, 0)
        properties = direct_properties(tag=tag, key=key, deliver_ms=deliver_ms)
        return (self._topic, revive_queue, body, properties, 0, 0, now, self._host, 0, 0)
