"""How far groups are, as administrators are told.

208  {"consumeTps":0.0,"offsetTable":{{…}:{"brokerOffset":8,"consumerOffset":8,"lastTimestamp":0,"pullOffset":8}}}
317  {"brokerAddr":…,"consumeStatsList":[{"group":[{…}]}],"totalDiff":0,"totalInflightDiff":0}
303  {"consumeTimeSpanSet":[{"consumeTimeStamp":0,…,"messageQueue":{…},"minTimeStamp":0,…}]}
308  {"correctionOffsets":{0:12}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from embermq.format.json_fields import Fields, parse_fields
from embermq.format.wire_json import BrokerQueue, encode_body, queue_members, read_queue


class QueueProgress(NamedTuple):
    """How far a group is in one queue."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_time_ms: int  # when the last message that was consumed had been stored; 0 if none was


@dataclass(frozen=True, slots=True)
class ConsumeStats:
    """How far a group is in its queues."""

    rate: float  # messages a second
    queues: Mapping[BrokerQueue, QueueProgress]

    @property
    def difference(self) -> int:
        """Messages that are not consumed yet."""
        return sum(queue.broker_offset - queue.consumer_offset for queue in self.queues.values())

    @property
    def in_flight(self) -> int:
        """Messages that were fetched but are not consumed yet."""
        return sum(queue.pull_offset - queue.consumer_offset for queue in self.queues.values())


class QueueTimes(NamedTuple):
    """When messages of a queue were stored: the first, the last, and the last that was consumed."""

    queue: BrokerQueue
    first_ms: int
    last_ms: int
    consumed_ms: int
    delay_ms: int  # the age of the next one to consume


def encode_consume_stats(stats: ConsumeStats) -> bytes:
    return encode_body(_stats_members(stats))


def decode_consume_stats(data: bytes) -> ConsumeStats:
    """Raises CorruptRecord."""
    fields = parse_fields(data, "consume stats")
    return _read_stats(fields)


def encode_broker_consume_stats(address: str, groups: Mapping[str, Sequence[ConsumeStats]]) -> bytes:
    every = [stats for group in groups.values() for stats in group]
    return encode_body(
        {
            "brokerAddr": address,
            "consumeStatsList": [{name: [_stats_members(stats) for stats in group]} for name, group in groups.items()],
            "totalDiff": sum(stats.difference for stats in every),
            "totalInflightDiff": sum(stats.in_flight for stats in every),
        }
    )


def encode_time_spans(spans: Sequence[QueueTimes]) -> bytes:
    return encode_body({"consumeTimeSpanSet": [_span_members(span) for span in spans]})


def encode_corrections(offsets: Mapping[int, int]) -> bytes:
    return encode_body({"correctionOffsets": offsets})


def _stats_members(stats: ConsumeStats) -> dict[str, object]:
    queues = {queue: _progress_members(progress) for queue, progress in stats.queues.items()}
    return {"consumeTps": float(stats.rate), "offsetTable": queues}


def _progress_members(progress: QueueProgress) -> dict[str, object]:
    return {
        "brokerOffset": progress.broker_offset,
        "consumerOffset": progress.consumer_offset,
        "lastTimestamp": progress.last_time_ms,
        "pullOffset": progress.pull_offset,
    }


def _read_stats(fields: Fields) -> ConsumeStats:
    queues = {}
    for key, value in fields.items("offsetTable"):
        progress = Fields(value, f"offsets of {key}")
        names = ("brokerOffset", "consumerOffset", "pullOffset", "lastTimestamp")
        queues[read_queue(key, "offsetTable")] = QueueProgress(*map(progress.integer, names))
    return ConsumeStats(fields.number("consumeTps"), queues)


def _span_members(span: QueueTimes) -> dict[str, object]:
    return {
        "consumeTimeStamp": span.consumed_ms,
        "consumeTimeStampStr": _format_time(span.consumed_ms),
        "delayTime": span.delay_ms,
        "maxTimeStamp": span.last_ms,
        "maxTimeStampStr": _format_time(span.last_ms),
        "messageQueue": queue_members(span.queue),
        "minTimeStamp": span.first_ms,
        "minTimeStampStr": _format_time(span.first_ms),
    }


def _format_time(time_ms: int) -> str:
    """Local time, for people."""
    time = datetime.fromtimestamp(time_ms // 1000)
    return f"{time:%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03}"
