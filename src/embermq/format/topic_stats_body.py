"""The queues of a topic, as administrators are told.

202  {"offsetTable":{{…}:{"lastUpdateTimestamp":0,"maxOffset":5,"minOffset":0}},"topicPutTps":0.0}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from embermq.format.json_fields import Fields, parse_fields
from embermq.format.wire_json import BrokerQueue, encode_body, read_queue


class QueueStats(NamedTuple):
    """What one queue holds."""

    min_offset: int
    max_offset: int
    last_time_ms: int  # when its last message was stored; 0 if there is none


def encode_topic_stats(queues: Mapping[BrokerQueue, QueueStats], *, rate: float) -> bytes:
    """`rate` is how many messages a second the topic gets."""
    table = {
        queue: {
            "lastUpdateTimestamp": stats.last_time_ms,
            "maxOffset": stats.max_offset,
            "minOffset": stats.min_offset,
        }
        for queue, stats in queues.items()
    }
    return encode_body({"offsetTable": table, "topicPutTps": rate})


def decode_topic_stats(data: bytes) -> dict[BrokerQueue, QueueStats]:
    """Raises CorruptRecord."""
    found = {}
    for key, value in parse_fields(data, "topic stats").items("offsetTable"):
        fields = Fields(value, f"queue {key}")
        stats = QueueStats(*map(fields.integer, ("minOffset", "maxOffset", "lastUpdateTimestamp")))
        found[read_queue(key, "offsetTable")] = stats
    return found
