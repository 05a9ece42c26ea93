"""Reading a consume queue: by time, while it changes, and from another process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from embermq.format.queue_entry import QueueEntry
from tests.unit.log.queue_builders import Opener, entries, items


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(tmp_path / "queue")
    yield opener
    opener.close()


def times(known: Sequence[int | None]) -> Callable[[QueueEntry], int | None]:
    return lambda entry: known[entry.position // 100]


@pytest.mark.parametrize(
    ("known", "time", "lower", "upper"),
    [
        ([5, 5, 5, 9, 9], 4, 0, 0),
        ([5, 5, 5, 9, 9], 5, 0, 2),
        ([5, 5, 5, 9, 9], 7, 3, 2),
        ([5, 5, 5, 9, 9], 9, 3, 4),
        ([5, 5, 5, 9, 9], 10, 5, 4),
        ([None, None, 5, 9], 1, 2, 1),
        ([None, None, 5, 9], 5, 2, 2),
        ([None, None], 5, 2, 1),
        ([5], 5, 0, 0),
        ([], 5, 0, 0),
    ],
)
def test_a_time_is_found_with_both_bounds(
    make: Opener, known: list[int | None], time: int, lower: int, upper: int
) -> None:
    queue = make(per_file=2)
    queue.put(items(0, len(known)))
    assert queue.find_offset(time, upper=False, time_at=times(known)) == lower
    assert queue.find_offset(time, upper=True, time_at=times(known)) == upper


def test_a_time_search_stays_within_the_offsets_there_are(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 25))
    queue.correct_min(1400)
    known = list(range(25))
    assert queue.find_offset(3, upper=False, time_at=times(known)) == 14
    assert queue.find_offset(3, upper=True, time_at=times(known)) == 14
    assert queue.find_offset(99, upper=False, time_at=times(known)) == 25
    assert queue.find_offset(99, upper=True, time_at=times(known)) == 24


def test_a_time_search_never_answers_with_a_blank_entry(make: Opener) -> None:
    queue = make()
    queue.put(items(2, 5) + items(21, 24))
    known = [0] * 2 + [10, 11, 12] + [0] * 16 + [20, 21, 22]
    for time in range(9, 24):
        later = [offset for offset in (2, 3, 4, 21, 22, 23) if known[offset] >= time]
        earlier = [offset for offset in (2, 3, 4, 21, 22, 23) if known[offset] <= time]
        assert queue.find_offset(time, upper=False, time_at=times(known)) == min(later, default=24)
        assert queue.find_offset(time, upper=True, time_at=times(known)) == max(earlier, default=2)


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Lets threads take turns so often that their steps mix."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_readers_only_ever_see_whole_entries(make: Opener) -> None:
    queue = make(per_file=500)
    problems: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set() and not problems:
            end = queue.max_offset
            begin = max(0, end - 50)
            seen = queue.read(begin, end - begin)
            if seen != entries(begin, end):
                problems.append(f"[{begin}, {end}): {seen}")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for begin in range(0, 7_000, 7):
        queue.put(items(begin, begin + 7))
    done.set()
    for reader in readers:
        reader.join()
    assert problems == []


@pytest.mark.usefixtures("eager_threads")
def test_a_reader_meets_no_error_while_the_queue_is_cut_and_shortened(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 500))
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for offset in (queue.min_offset, queue.max_offset - 15):
                    for number, entry in enumerate(queue.read(offset, 20)):
                        assert entry == entries(offset + number, offset + number + 1)[0]
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for step in range(1, 40):
        queue.cut(100 * (500 - step))
        queue.put(items(500 - step, 500))
        queue.delete_before(500 * step)
    done.set()
    reader.join()
    assert failures == []


def test_a_reader_of_another_process_finds_what_was_added_when_it_loads_again(make: Opener) -> None:
    owner, reader = make(), None
    owner.put(items(0, 9))
    reader = make(read_only=True)
    owner.put(items(9, 23))
    assert reader.max_offset == 9
    reader.load()
    assert reader.read(0, 30) == entries(0, 23)
    reader.correct_min(500)
    assert reader.min_offset == 5
