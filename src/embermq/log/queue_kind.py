"""The kinds of queue that a topic can call for, by the names its attribute `queue.type` has."""

from __future__ import annotations

from enum import StrEnum


class QueueKind(StrEnum):
    """How a queue keeps its entries."""

    SIMPLE = "SimpleCQ"  # one entry a message
    BATCH = "BatchCQ"  # one entry a record, which may hold many messages
