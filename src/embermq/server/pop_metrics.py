"""The figures of pops, under RocketMQ's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from embermq.broker.pop.figures import PopFigures
from embermq.server.exposition import Family, Row

_KINDS = {"ck": "CK", "ack": "ACK", "bAck": "ACK"}


def pop_families(figures: PopFigures) -> Iterator[Family]:
    """Checkpoints and acks, what was revived, and how late that is."""
    labels = ("queue_id", "revive_message_type")
    for name, text, counts in (
        ("rocketmq_pop_revive_in_message", "checkpoints and acks written", figures.written),
        ("rocketmq_pop_revive_out_message", "checkpoints and acks whose time came", figures.read),
    ):
        yield Family(name, "counter", text, labels, _by_kind(counts))
    queues = list(enumerate(figures.queues))
    rows = [Row((str(number), "PUT_OK"), each.revived) for number, each in queues]
    yield Family("rocketmq_pop_revive_retry_messages", "counter", "delivered again", ("queue_id", "put_status"), rows)
    for name, text, values in (
        ("rocketmq_pop_revive_lag", "records not looked at", [each.behind for _, each in queues]),
        ("rocketmq_pop_revive_latency", "ms the oldest checkpoint is due", [each.late_ms for _, each in queues]),
    ):
        yield Family(name, "gauge", text, ("queue_id",), [Row((str(at),), value) for at, value in enumerate(values)])
    for name, text, value in (
        ("rocketmq_pop_offset_buffer_size", "pops whose offsets wait for the disk", figures.unsettled),
        ("rocketmq_pop_checkpoint_buffer_size", "checkpoints waiting", sum(each.pending for _, each in queues)),
    ):
        yield Family(name, "gauge", text, (), [Row((), value)])


def _by_kind(counts: Mapping[tuple[int, str], int]) -> list[Row]:
    sums: dict[tuple[str, str], int] = {}
    for (queue, tag), count in counts.items():
        key = str(queue), _KINDS.get(tag, tag)
        sums[key] = sums.get(key, 0) + count
    return [Row(key, count) for key, count in sums.items()]
