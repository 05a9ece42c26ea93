"""Where to begin and to stop: by time, by bytes, by count, over stores that RocketMQ wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from embermq.scan.searching import Stop, StoreSearch
from embermq.scan.splits import StorePlace
from embermq.scan.store_state import StoreState, look
from embermq.scan.survey import QueueState
from tests.conftest import Golden


@pytest.fixture(scope="module")
def golden_basic(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoreState, dict[str, Any]]:
    golden = Golden(tmp_path_factory.mktemp("golden"))
    return look(StorePlace(str(golden.store("basic")))), golden.expected("basic")


def queue_of(state: StoreState, topic: str, queue: int) -> QueueState:
    return next(each for each in state.queues if (each.topic, each.queue) == (topic, queue))


def test_a_store_is_looked_at_without_reading_it(golden_basic: tuple[StoreState, dict[str, Any]]) -> None:
    state, expected = golden_basic
    assert (state.begin, state.end) == (0, expected["commitLog"]["endOfRecords"])
    assert state.is_settled
    assert {(each.topic, each.queue): (each.begin, each.end) for each in state.queues} == {
        (topic, int(queue)): (facts["minOffset"], facts["maxOffset"])
        for topic, queues in expected["consumeQueues"].items()
        for queue, facts in queues.items()
    }


def test_an_offset_is_found_by_time(golden_basic: tuple[StoreState, dict[str, Any]]) -> None:
    state, expected = golden_basic
    search = StoreSearch(state)
    for queue in state.queues:
        own = [
            record
            for record in expected["commitLog"]["records"]
            if (record["topic"], record["queueId"]) == (queue.topic, queue.queue)
        ]
        times = sorted(record["storeTimestamp"] for record in own)
        for time in (0, times[0], times[len(times) // 2], times[-1], times[-1] + 1):
            later = [record["queueOffset"] for record in own if record["storeTimestamp"] >= time]
            assert search.find_offset(queue, time) == min(later, default=queue.end)


def test_a_position_is_found_by_time(golden_basic: tuple[StoreState, dict[str, Any]]) -> None:
    state, expected = golden_basic
    search = StoreSearch(state)
    records = expected["commitLog"]["records"]
    for record in records[::50]:
        time = record["storeTimestamp"]
        first = min(each["physicalOffset"] for each in records if each["storeTimestamp"] >= time)
        found = search.find_position(time)
        assert found <= first < found + 2 * state.files[0].size


def test_messages_are_counted_by_their_bytes(golden_basic: tuple[StoreState, dict[str, Any]]) -> None:
    state, expected = golden_basic
    queue = queue_of(state, "TopicAlpha", 0)
    sizes = [unit[1] for unit in expected["consumeQueues"]["TopicAlpha"]["0"]["units"]]
    search = StoreSearch(state)
    for begin in (0, 7):
        for count in (1, 5, 20):
            size = sum(sizes[begin : begin + count])
            assert search.count_within(queue, begin, size) == count
            assert search.count_within(queue, begin, size - 1) == max(count - 1, 1)
    assert search.count_within(queue, 0, 1 << 40) == queue.end


def test_a_stop_lies_between_records(golden_basic: tuple[StoreState, dict[str, Any]]) -> None:
    state, expected = golden_basic
    records = expected["commitLog"]["records"]
    search = StoreSearch(state)
    ends = [record["physicalOffset"] + record["totalSize"] for record in records]
    assert search.find_stop(0, count=10) == Stop(ends[9], 10)
    assert search.find_stop(ends[9], count=1) == Stop(ends[10], 1)
    assert search.find_stop(0, size=ends[9]) == Stop(ends[9], 10)
    assert search.find_stop(0, size=ends[9] - 1) == Stop(ends[8], 9)
    assert search.find_stop(0, size=1) == Stop(ends[0], 1)
    assert search.find_stop(0, count=3, size=ends[9]) == Stop(ends[2], 3)
    assert search.find_stop(0) == Stop(state.end, len(records))


def test_small_steps_reach_the_end(golden_basic: tuple[StoreState, dict[str, Any]]) -> None:
    """Also over what closes files, where no record lies."""
    state, expected = golden_basic
    search, position, records = StoreSearch(state), 0, 0
    while position < state.end:
        stop = search.find_stop(position, size=2_000)
        assert stop.position > position
        position, records = stop.position, records + stop.records
    assert records == len(expected["commitLog"]["records"])


def test_a_store_that_crashed_is_not_settled(tmp_path: Path) -> None:
    state = look(StorePlace(str(Golden(tmp_path).store("crashed"))))
    assert not state.is_settled
