"""What of a store can be read at one moment: the log up to a position, and the messages of each queue."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple

from embermq.store.parts import Parts


class QueueOutline(NamedTuple):
    """The messages [begin, end) of a queue."""

    topic: str
    queue: int
    begin: int
    end: int


class Outline(NamedTuple):
    """Every message of the queues lies before `log_end`."""

    log_begin: int
    log_end: int
    queues: tuple[QueueOutline, ...]  # by topic and number


def make_outline(parts: Parts, writing: AbstractContextManager[object]) -> Outline:
    """With the lock `writing` held, in which queues are filled, so that log and queues agree."""
    with writing:
        queues = tuple(
            QueueOutline(topic, number, min(queue.min_offset, queue.max_offset), queue.max_offset)
            for topic, number, queue in parts.queues.items()
        )
        return Outline(parts.commit_log.chain.begin, parts.dispatcher.position, queues)
