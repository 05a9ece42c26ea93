"""The figures of a broker's timer, under RocketMQ's names."""

from __future__ import annotations

from collections.abc import Iterator

from embermq.broker.timer_figures import TimerFigures
from embermq.server.exposition import Family, Row


def timer_families(figures: TimerFigures) -> Iterator[Family]:
    """What waits, what came and went, and how late it is."""
    for name, text, value in (
        ("rocketmq_timer_enqueue_lag", "messages that are not in the wheel yet", figures.behind),
        ("rocketmq_timer_dequeue_lag", "messages that are due and not delivered", figures.late),
        ("rocketmq_timer_dequeue_latency", "ms by which delivery is late", figures.late_ms),
    ):
        yield Family(name, "gauge", text, (), [Row((), value)])
    rows = [Row((topic,), count) for topic, count in figures.by_topic.items()]
    yield Family("rocketmq_timing_messages", "gauge", "messages that wait for their time", ("topic",), rows)
    rows = [Row((str(bound),), count) for bound, count in figures.within.items()]
    yield Family("rocketmq_timer_message_snapshot", "gauge", "messages due within so long", ("timer_bound_s",), rows)
    for name, text, value in (
        ("rocketmq_timer_enqueue", "messages that entered the wheel", figures.enqueued),
        ("rocketmq_timer_dequeue", "messages that left the wheel", figures.dequeued),
    ):
        yield Family(name, "counter", text, (), [Row((), value)])
