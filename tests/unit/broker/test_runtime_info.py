"""The figures of a running broker, held against those of a RocketMQ broker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq import Store
from embermq.broker.runtime_info import RuntimeInfo
from embermq.broker.statistics import BrokerStatistics
from embermq.format.runtime_body import decode_runtime, encode_runtime
from embermq.format.tables import DelayTable
from embermq.model.version import DataVersion
from tests.builders import ManualClock, a_store, some_messages

WIRE = Path(__file__).parents[2] / "golden" / "data" / "wire"


def golden_figures() -> dict[str, str]:
    frames = [json.loads(line) for line in (WIRE / "mqadmin-brokerStatus.jsonl").read_text().splitlines()]
    (answer,) = [frame for frame in frames if frame.get("kind") == "response"]
    return decode_runtime(bytes.fromhex(answer["body_hex"]))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    with a_store(tmp_path, clock=clock) as store:
        yield store


@pytest.fixture
def statistics(clock: ManualClock) -> BrokerStatistics:
    return BrokerStatistics(clock)


def an_info(store: Store, statistics: BrokerStatistics, clock: ManualClock, **delays: int) -> RuntimeInfo:
    offsets = {int(level): offset for level, offset in delays.items()}
    return RuntimeInfo(store, statistics, delays=lambda: DelayTable(DataVersion(), offsets), clock=clock)


def run(statistics: BrokerStatistics, clock: ManualClock, *, seconds: int) -> None:
    for _ in range(seconds):
        clock.advance(ms=1000)
        statistics.sample()


def shape(text: str) -> str:
    """A text with every number in it replaced by what kind of number it is."""
    text = re.sub(r"\d+\.\d+(E-?\d+)?", "<double>", text)
    return re.sub(r"\d+", "<integer>", text)


def test_every_figure_is_there_and_looks_as_in_rocketmq(
    store: Store, statistics: BrokerStatistics, clock: ManualClock
) -> None:
    golden = golden_figures()
    info = an_info(store, statistics, clock, **{"2": 1, "3": 2})
    store.put_many(some_messages(10))
    statistics.count_put("orders", 0, 10, 1000)
    statistics.count_get("orders", 0, "billing", 10, 1000)
    store.checkpoint()  # so that nothing is left to flush, as in the golden answer
    run(statistics, clock, seconds=118)
    ours = info.table()
    path = f"commitLogDiskRatio_{store.path / 'commitlog'}"
    names = {path if name.startswith("commitLogDiskRatio_") else name for name in golden}
    assert set(ours) == names
    shapes = {path if name.startswith("commitLogDiskRatio_") else name: shape(text) for name, text in golden.items()}
    assert {name: shape(text) for name, text in ours.items()} == shapes


def test_the_figures_are_those_of_the_store(store: Store, statistics: BrokerStatistics, clock: ManualClock) -> None:
    info = an_info(store, statistics, clock)
    first = clock.now_ms()
    store.put_many(some_messages(10))
    clock.advance(ms=5000)
    store.put_many(some_messages(6))
    state, ours = store.state(), info.table()
    assert ours["putMessageTimesTotal"] == "16"
    assert ours["putMessageSizeTotal"] == ours["commitLogMaxOffset"] == str(state.log_written)
    assert ours["putMessageAverageSize"] == repr(state.log_written / 16)
    assert ours["earliestMessageTimeStamp"] == str(first)
    assert ours["runtime"] == "[ 0 days, 0 hours, 0 minutes, 5 seconds ]"
    assert ours["bootTimestamp"] == str(first)


def test_an_empty_broker(store: Store, statistics: BrokerStatistics, clock: ManualClock) -> None:
    ours = an_info(store, statistics, clock).table()
    assert ours["putMessageTimesTotal"] == "1"
    assert ours["earliestMessageTimeStamp"] == "-1"
    assert ours["putMessageDistributeTime"] == "null"
    assert ours["putTps"] == "  "
    assert ours["getTotalTps"] == "0.0 0.0 0.0"


def test_rates_appear_as_soon_as_their_time_has_passed(
    store: Store, statistics: BrokerStatistics, clock: ManualClock
) -> None:
    info = an_info(store, statistics, clock)
    for _ in range(59):
        statistics.count_put("orders", 0, 5, 50)
        statistics.count_get("orders", 0, "billing", 0, 0)
        run(statistics, clock, seconds=1)
    assert info.table()["putTps"] == "5.0  "
    run(statistics, clock, seconds=1)
    assert info.table()["putTps"] == f"{45 / 10} {295 / 60} "
    assert info.table()["getMissTps"].startswith("0.9 ")
    run(statistics, clock, seconds=600)
    assert info.table()["putTps"] == "0.0 0.0 0.0"


def test_days_are_counted_with_separators(store: Store, statistics: BrokerStatistics, clock: ManualClock) -> None:
    info = an_info(store, statistics, clock)
    clock.advance(hours=24 * 1000 + 1)
    assert info.table()["runtime"] == "[ 1,000 days, 1 hours, 0 minutes, 0 seconds ]"


def test_a_pool_says_what_is_left_of_it(tmp_path: Path, statistics: BrokerStatistics, clock: ManualClock) -> None:
    with a_store(tmp_path, durability="pooled", pool_buffers=5, commit_interval_ms=60_000) as store:
        store.put_many(some_messages(1))
        ours = an_info(store, statistics, clock).table()
        assert ours["remainTransientStoreBufferNumbs"] == str(store.free_buffers())
        assert 0 < int(ours["remainTransientStoreBufferNumbs"]) < 5
        assert re.fullmatch(r"\d+ B|\d+\.\d [KM]iB", ours["remainHowManyDataToCommit"])


def test_the_body_is_read_as_it_was_written(store: Store, statistics: BrokerStatistics, clock: ManualClock) -> None:
    table = an_info(store, statistics, clock).table()
    assert decode_runtime(encode_runtime(table)) == table
    assert list(table) == sorted(table)
