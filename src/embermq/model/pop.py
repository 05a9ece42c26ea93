"""Consuming by pop: what was given to whom for how long, and what was acknowledged.

pop ─→ Checkpoint: these messages are with a consumer until their time is up
ack ─→ Ack: these of them are done
time up ─→ what no ack names goes to the retry topic of the group and topic
"""

from __future__ import annotations

from typing import Final, NamedTuple

from embermq.model.topic import RETRY_PREFIX

REVIVE_TOPIC_PREFIX: Final = "rmq_sys_REVIVE_LOG_"  # and the cluster's name
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
FIFO_REVIVE_QUEUE: Final = 999  # never a queue: such messages were popped in order
MOST_MESSAGES: Final = 32  # of one pop, as in RocketMQ
LONGEST_INVISIBLE_MS: Final = 3 * 24 * 3600 * 1000  # as long as RocketMQ's timer reaches

NORMAL, RETRY_V1, RETRY_V2 = 0, 1, 2  # which topic a message was popped from


class Delivery(NamedTuple):
    """What identifies a checkpoint, and joins acks to it."""

    topic: str  # that was read: the retry topic for messages from there
    group: str
    queue: int
    start: int  # offset that the pop began at
    pop_time: int
    broker: str

    @property
    def key(self) -> tuple[str, str, int]:
        return self.topic, self.group, self.queue


class Checkpoint(NamedTuple):
    """Messages that are with a consumer."""

    delivery: Delivery
    offsets: tuple[int, ...]
    invisible_ms: int
    times_put_back: int = 0

    @property
    def revive_time(self) -> int:
        """When those that nobody acknowledged are delivered again."""
        return self.delivery.pop_time + self.invisible_ms


class Ack(NamedTuple):
    """Messages of a checkpoint that are done."""

    delivery: Delivery
    offsets: tuple[int, ...]


class Handle(NamedTuple):
    """What a consumer shows of a message when it acknowledges it: the property POP_CK."""

    start: int
    pop_time: int
    invisible_ms: int
    revive_queue: int
    broker: str

    @property
    def is_fifo(self) -> bool:
        return self.revive_queue == FIFO_REVIVE_QUEUE

    @property
    def revive_time(self) -> int:
        return self.pop_time + self.invisible_ms

    def delivery(self, topic: str, group: str, queue: int) -> Delivery:
        return Delivery(topic, group, queue, self.start, self.pop_time, self.broker)


def revive_topic_of(cluster: str) -> str:
    """Where the checkpoints and acks of a cluster's brokers arrive when it is time to look at them."""
    return REVIVE_TOPIC_PREFIX + cluster


def retry_topic_of(topic: str, group: str, *, version: int = RETRY_V1) -> str:
    """Where messages of `topic` go that nobody of `group` acknowledged in time."""
    return f"{RETRY_PREFIX}{group}{'+' if version == RETRY_V2 else '_'}{topic}"


def origin_of(topic: str, group: str) -> str:
    """The topic whose messages of `group` come to `topic`, if that is such a retry topic; else `topic` itself."""
    for joint in ("_", "+"):
        prefix = f"{RETRY_PREFIX}{group}{joint}"
        if topic.startswith(prefix) and len(topic) > len(prefix):
            return topic.removeprefix(prefix)
    return topic
