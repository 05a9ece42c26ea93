"""How far a stream is, as Spark keeps it: offsets by topic, broker and queue, or positions of the log by broker.

queue mode    {"orders": {"broker-a": {"0": 23, "1": 20}}}
log mode      {"log": {"broker-a": 1073741824}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from embermq.errors import SettingsError

LOG: Final = "log"


class QueueKey(NamedTuple):
    """A queue of a topic at a broker."""

    topic: str
    broker: str
    queue: int


QueueOffsets: TypeAlias = dict[QueueKey, int]  # of the next message
LogPositions: TypeAlias = dict[str, int]  # by broker
Nested: TypeAlias = dict[str, dict[str, dict[str, int]]]


def nest_queues(offsets: Mapping[QueueKey, int]) -> Nested:
    """Offsets as Spark keeps them, in one order always: Spark compares their text."""
    nested: Nested = {}
    for (topic, broker, queue), offset in sorted(offsets.items()):
        nested.setdefault(topic, {}).setdefault(broker, {})[str(queue)] = offset
    return nested


def flatten_queues(nested: Mapping[str, object]) -> QueueOffsets:
    """Offsets from what Spark kept. Raises SettingsError for those of a stream in log mode."""
    flat: QueueOffsets = {}
    for topic, brokers in _members(nested, nested):
        for broker, queues in _members(brokers, nested):
            for queue, offset in _members(queues, nested):
                if not queue.isdecimal() or type(offset) is not int:
                    raise _foreign(nested)
                flat[QueueKey(topic, broker, int(queue))] = offset
    return flat


def nest_log(positions: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Positions as Spark keeps them."""
    return {LOG: dict(sorted(positions.items()))}


def flatten_log(nested: Mapping[str, object]) -> LogPositions:
    """Positions from what Spark kept. Raises SettingsError for those of a stream in queue mode."""
    if set(nested) != {LOG}:
        raise _foreign(nested)
    positions: LogPositions = {}
    for broker, position in _members(nested[LOG], nested):
        if type(position) is not int:
            raise _foreign(nested)
        positions[broker] = position
    return positions


def _members(value: object, nested: Mapping[str, object]) -> list[tuple[str, object]]:
    if not isinstance(value, Mapping):
        raise _foreign(nested)
    return list(value.items())


def _foreign(nested: Mapping[str, object]) -> SettingsError:
    return SettingsError(
        f"the checkpoint has the offsets {json.dumps(nested)[:200]}, which are not of this kind of stream: with "
        "subscribe, subscribePattern or assign they are by topic, broker and queue, without them positions of the log; "
        "use the options that the checkpoint was made with, or a new checkpointLocation"
    )
