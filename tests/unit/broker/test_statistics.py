"""What is counted, and what the windows make of it."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from embermq.broker.counting import Figures
from embermq.broker.statistics import BrokerStatistics
from embermq.format.stats_body import FIGURES
from tests.builders import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(int(datetime(2024, 5, 6, 12, 0, 0).timestamp() * 1000))


@pytest.fixture
def statistics(clock: ManualClock) -> BrokerStatistics:
    return BrokerStatistics(clock, cluster="cluster-a")


def run(statistics: BrokerStatistics, clock: ManualClock, *, seconds: int) -> None:
    for _ in range(seconds):
        clock.advance(ms=1000)
        statistics.sample()


def test_a_put_is_seen_with_the_next_snapshot(statistics: BrokerStatistics, clock: ManualClock) -> None:
    statistics.count_put("orders", 1, 5, 500)
    run(statistics, clock, seconds=9)
    assert statistics.minute("TOPIC_PUT_NUMS", "orders") == Figures(0, 0.0, 0.0)
    run(statistics, clock, seconds=1)
    assert statistics.minute("TOPIC_PUT_NUMS", "orders") == Figures(5, 0.5, 5.0)
    assert statistics.minute("TOPIC_PUT_SIZE", "orders") == Figures(500, 50.0, 500.0)
    assert statistics.minute("QUEUE_PUT_NUMS", "orders@1") == Figures(5, 0.5, 5.0)
    assert statistics.minute("QUEUE_PUT_SIZE", "orders@1") == Figures(500, 50.0, 500.0)


def test_a_topic_is_the_sum_of_its_queues(statistics: BrokerStatistics, clock: ManualClock) -> None:
    for queue in range(4):
        statistics.count_put("orders", queue, 10, 1000)
    run(statistics, clock, seconds=10)
    assert statistics.minute("TOPIC_PUT_NUMS", "orders") == Figures(40, 4.0, 10.0)
    assert statistics.minute("QUEUE_PUT_NUMS", "orders@3") == Figures(10, 1.0, 10.0)


def test_the_minute_forgets_after_a_minute(statistics: BrokerStatistics, clock: ManualClock) -> None:
    statistics.count_put("orders", 0, 6, 60)
    run(statistics, clock, seconds=60)
    assert statistics.minute("TOPIC_PUT_NUMS", "orders") == Figures(6, 0.1, 6.0)
    run(statistics, clock, seconds=10)
    assert statistics.minute("TOPIC_PUT_NUMS", "orders") == Figures(0, 0.0, 0.0)


def test_a_steady_rate_is_the_same_in_every_window(statistics: BrokerStatistics, clock: ManualClock) -> None:
    for _ in range(26 * 3600 // 10):
        statistics.count_put("orders", 0, 20, 200)
        run(statistics, clock, seconds=10)
    assert statistics.minute("TOPIC_PUT_NUMS", "orders") == Figures(120, 2.0, 20.0)
    assert statistics.hour("TOPIC_PUT_NUMS", "orders") == Figures(7200, 2.0, 20.0)
    assert statistics.day("TOPIC_PUT_NUMS", "orders") == Figures(2 * 86_400, 2.0, 20.0)


def test_after_a_rest_the_window_is_still_a_whole_minute(statistics: BrokerStatistics, clock: ManualClock) -> None:
    statistics.count_put("orders", 0, 6, 60)
    run(statistics, clock, seconds=300)
    statistics.count_put("orders", 0, 6, 60)
    run(statistics, clock, seconds=10)
    assert statistics.minute("TOPIC_PUT_NUMS", "orders") == Figures(6, 0.1, 6.0)


def test_hour_and_day_begin_with_their_first_snapshot(statistics: BrokerStatistics, clock: ManualClock) -> None:
    statistics.count_put("orders", 0, 6, 60)
    run(statistics, clock, seconds=599)
    assert statistics.hour("TOPIC_PUT_NUMS", "orders") == Figures(0, 0.0, 0.0)
    run(statistics, clock, seconds=1)
    assert statistics.hour("TOPIC_PUT_NUMS", "orders") == Figures(6, 0.01, 6.0)
    assert statistics.day("TOPIC_PUT_NUMS", "orders") == Figures(0, 0.0, 0.0)
    run(statistics, clock, seconds=3000)
    assert statistics.day("TOPIC_PUT_NUMS", "orders") == Figures(6, 6 / 3600, 6.0)


def test_gets_are_counted_by_group_and_queue(statistics: BrokerStatistics, clock: ManualClock) -> None:
    statistics.count_get("orders", 2, "billing", 8, 800)
    statistics.count_get("orders", 2, "billing", 0, 0)
    run(statistics, clock, seconds=10)
    assert statistics.minute("GROUP_GET_NUMS", "orders@billing") == Figures(8, 0.8, 8.0)
    assert statistics.minute("GROUP_GET_SIZE", "orders@billing") == Figures(800, 80.0, 800.0)
    assert statistics.minute("QUEUE_GET_NUMS", "orders@2@billing") == Figures(8, 0.8, 8.0)
    assert (statistics.totals.found, statistics.totals.missed, statistics.totals.transferred) == (1, 1, 8)


def test_times_send_backs_and_dead_letters(statistics: BrokerStatistics, clock: ManualClock) -> None:
    statistics.count_put_time("orders", 3, 20)
    statistics.count_put_time("orders", 3, 40)
    statistics.count_get("orders", 3, "billing", 1, 10, ms=5)
    statistics.count_gets("orders", 3, "billing", 3, 6, 60, ms=3)
    statistics.count_send_back("%RETRY%billing", "billing")
    statistics.count_dead_letter("orders", "billing")
    run(statistics, clock, seconds=10)
    assert statistics.minute("TOPIC_PUT_LATENCY", "3@orders") == Figures(60, 6.0, 30.0)
    assert statistics.minute("GROUP_GET_LATENCY", "3@orders@billing") == Figures(8, 0.8, 2.0)
    assert statistics.longest_get_ms == 5
    assert statistics.minute("SNDBCK_PUT_NUMS", "%RETRY%billing@billing") == Figures(1, 0.1, 1.0)
    assert statistics.minute("SNDBCK2DLQ_TIMES", "null@orders@billing@SEND_BACK_TO_DLQ") == Figures(1, 0.1, 1.0)


def test_the_whole_broker_is_counted_under_its_cluster(statistics: BrokerStatistics, clock: ManualClock) -> None:
    statistics.count_put("orders", 0, 7, 70)
    statistics.count_put("SCHEDULE_TOPIC_XXXX", 0, 3, 30)
    statistics.count_get("orders", 0, "billing", 2, 20)
    run(statistics, clock, seconds=10)
    sums = {name: (figures := statistics.minute(name, "cluster-a")) and figures.sum for name in FIGURES}
    assert sums["BROKER_PUT_NUMS"] == 10
    assert sums["BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"] == 7
    assert sums["BROKER_GET_NUMS"] == sums["BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"] == 2


def test_what_never_counted_is_not_there(statistics: BrokerStatistics) -> None:
    statistics.count_put("orders", 0, 1, 1)
    assert statistics.minute("TOPIC_PUT_NUMS", "other") is None
    assert statistics.minute("NO_SUCH_NAME", "orders") is None


def test_deleted_topics_and_groups_are_forgotten(statistics: BrokerStatistics, clock: ManualClock) -> None:
    for topic in ("orders", "orders-2"):
        statistics.count_put(topic, 0, 1, 1)
        statistics.count_put_time(topic, 0, 1)
        for group in ("billing", "mailing"):
            statistics.count_get(topic, 0, group, 1, 1)
    run(statistics, clock, seconds=10)
    statistics.forget_topic("orders")
    statistics.forget_group("mailing")
    known = {
        (name, key)
        for name, keys in {
            "TOPIC_PUT_NUMS": ["orders", "orders-2"],
            "QUEUE_PUT_NUMS": ["orders@0", "orders-2@0"],
            "TOPIC_PUT_LATENCY": ["0@orders", "0@orders-2"],
            "GROUP_GET_NUMS": [
                f"{topic}@{group}" for topic in ("orders", "orders-2") for group in ("billing", "mailing")
            ],
        }.items()
        for key in keys
        if statistics.minute(name, key) is not None
    }
    assert known == {
        ("TOPIC_PUT_NUMS", "orders-2"),
        ("QUEUE_PUT_NUMS", "orders-2@0"),
        ("TOPIC_PUT_LATENCY", "0@orders-2"),
        ("GROUP_GET_NUMS", "orders-2@billing"),
    }
    statistics.count_put("orders", 0, 4, 4)
    run(statistics, clock, seconds=10)
    assert statistics.minute("TOPIC_PUT_NUMS", "orders") == Figures(4, 0.4, 4.0)


def test_midnights_are_marked_in_local_time(statistics: BrokerStatistics, clock: ManualClock) -> None:
    statistics.count_put("orders", 0, 5, 5)
    statistics.count_get("orders", 0, "billing", 4, 4)
    assert statistics.day_marks == (0, 0, 0, 0)
    clock.advance(hours=12)
    statistics.sample()
    assert statistics.day_marks == (0, 5, 0, 4)
    statistics.count_put("orders", 0, 2, 2)
    statistics.sample()
    assert statistics.day_marks == (0, 5, 0, 4)
    clock.advance(hours=24)
    statistics.sample()
    assert statistics.day_marks == (5, 7, 4, 4)


def test_quiet_counters_cost_nothing(statistics: BrokerStatistics, clock: ManualClock) -> None:
    for number in range(20_000):
        statistics.count_put(f"topic-{number}", 0, 1, 1)
    run(statistics, clock, seconds=80)
    began = time.process_time()
    run(statistics, clock, seconds=100)
    busy_share = (time.process_time() - began) / 100
    assert busy_share < 0.01, f"{busy_share:.4f} of every second goes into counters that stand still"
