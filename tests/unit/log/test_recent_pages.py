"""How much of the log's end stays in memory, and what is given back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.files.file_chain import FileChain
from embermq.files.readers import MOMENT_S
from embermq.log.recent_pages import STEP, RecentPages
from tests.pages import skip_unless_forgotten
from tests.unit.files.file_chains import SetClock, write

FILE_SIZE = 8 * STEP
LEAST = 2 * STEP
MOST = 20 * STEP


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[FileChain]:
    chain = FileChain(tmp_path / "log", FILE_SIZE)
    yield chain
    chain.close()


class Log:
    """A log that grows by steps, each of them flushed."""

    def __init__(self, chain: FileChain, *, growth: int = 0, least: int = LEAST) -> None:
        self.chain, self.clock = chain, SetClock()
        self.recent = RecentPages(chain, least=least, growth=growth, most=MOST, clock=self.clock)

    def grow(self, steps: int, *, within_ms: int = 0) -> None:
        for _ in range(steps):
            write(self.chain, bytes(STEP))
            self.chain.flush()
            self.clock.ms += within_ms // steps
            self.recent.give_back(self.chain.flushed)

    @property
    def length(self) -> int:
        """How many steps at the end are kept in memory."""
        return (self.chain.flushed - self.chain.readers.begin) // STEP

    def resident(self) -> list[bool]:
        """Whether each step of the log is in memory."""
        steps = range(0, FILE_SIZE, STEP)
        return [file.is_resident(at, at + STEP) for file in self.chain.files for at in steps if at < file.written]


def test_what_is_behind_the_recent_part_is_not_in_memory_any_more(chain: FileChain, tmp_path: Path) -> None:
    skip_unless_forgotten(tmp_path)
    log = Log(chain)
    log.grow(12)  # into the second file
    assert log.resident() == [False] * 10 + [True] * 2
    assert chain.files[0].read(0, 10) == bytes(10)


@pytest.mark.parametrize(("steps", "kept"), [(2, 2), (3, 2), (40, 2)])
def test_however_fast_it_grows_the_least_is_kept(chain: FileChain, steps: int, kept: int) -> None:
    log = Log(chain)
    log.grow(steps)
    assert log.length == kept


def test_a_log_that_grows_slowly_stays_up_to_the_most(chain: FileChain) -> None:
    log = Log(chain, growth=STEP)
    log.grow(18, within_ms=18_000)
    assert log.length == 18
    log.grow(4, within_ms=4_000)
    assert log.length == MOST // STEP


def test_a_fast_one_keeps_more_and_more_as_time_goes_by(chain: FileChain) -> None:
    log = Log(chain, growth=STEP)
    log.grow(10, within_ms=1_000)
    assert log.length == 3
    log.grow(20, within_ms=2_000)
    assert log.length == 5


def test_a_long_time_without_anything_counts_like_a_second(chain: FileChain) -> None:
    log = Log(chain, growth=STEP)
    log.grow(4)
    log.clock.ms += 3_600_000
    log.grow(4)
    assert log.length == 3


def test_who_reads_in_the_recent_part_is_waited_for(chain: FileChain) -> None:
    log = Log(chain)
    log.grow(4)
    chain.readers.note(3 * STEP + 10)
    log.grow(4)
    assert log.chain.readers.begin == 3 * STEP
    log.clock.ms += int(2 * MOMENT_S * 1000)
    log.grow(1)
    log.clock.ms += int(2 * MOMENT_S * 1000)
    log.grow(1)
    assert log.length == 6, "what is in memory already may stay, it costs nothing more"


def test_nobody_is_waited_for_beyond_the_most(chain: FileChain) -> None:
    log = Log(chain)
    for _ in range(10):
        chain.readers.note(chain.readers.begin)
        log.grow(4)
    assert log.length == MOST // STEP


def test_what_was_there_before_is_left_alone(chain: FileChain, tmp_path: Path) -> None:
    skip_unless_forgotten(tmp_path)
    write(chain, bytes(4 * STEP))
    chain.flush()
    log = Log(chain)
    log.grow(8)
    assert log.resident() == [True] * 4 + [False] * 6 + [True] * 2
