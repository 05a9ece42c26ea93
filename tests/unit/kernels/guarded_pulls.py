"""Runs the kernel of pulls on memory between guards. A program of its own: a kernel that errs ends it.

python -m tests.unit.kernels.guarded_pulls COUNT: so many rounds; prints `COUNT rounds` at the end.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

import numpy as np

from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.kernels.compiling import Table
from embermq.kernels.patterns import NUMBERS, PATTERN_WIDTH
from embermq.kernels.pulls import (
    _KNOWN,
    _MOST_PLACES,
    _MOST_STRETCHES,
    _OUT,
    _OUT_SIZE,
    _PLACES,
    _RUNS,
    _SCRATCH,
    _STRETCHES,
    FILE_COUNT,
    FILES,
    FRAME_LIMIT,
    HEADER_LIMIT,
    MOST_PULLS,
    PLACE_COUNT,
    PULLS,
    RECEIVED,
    RECEIVED_SIZE,
    RUN_COUNT,
    RUN_WIDTH,
    SHAPE_WIDTH,
    SIZE,
    WINDOW,
    WINDOW_BEGIN,
    WINDOW_END,
    take_pulls,
)
from embermq.kernels.shapes import ANSWER, REQUEST
from tests.unit.kernels.guarded_memory import GuardedMemory
from tests.unit.kernels.pulled_frames import FILE_SIZE, PulledQueues

_PATTERN_STEPS = range(2, PATTERN_WIDTH, 2)


class Rounds:
    """One round calls the kernel twice, with all it is given at one guard or the other."""

    def __init__(self, path: Path, seed: int) -> None:
        self._random = Random(seed)
        self._queues = PulledQueues(path, self._random)
        self._memories = [GuardedMemory(1 << 19) for _ in range(13)]
        self.taken = 0

    def run(self) -> None:
        for last in (False, True):
            self._pulls(last=last)

    def _place(self, number: int, data: bytes, *, last: bool) -> int:
        return self._memories[number].place(data, last=last)

    def _pulls(self, *, last: bool) -> None:
        random, near = self._random, self._random.randrange(650)
        number = random.randrange(len(self._queues.shapes))
        data = b"".join(self._queues.frame(near, self._queues.wanted[number]) for _ in range(random.randrange(4)))
        if random.random() < 0.3:
            data = data[: random.randrange(len(data) + 1)]
        numbers = np.zeros(_KNOWN, np.int64)
        out_size = random.choice((0, 1, 300, 303, 310, 1_000, *[40_000, 300_000] * 5))
        places, stretches = random.choice((0, 1, 2, 5, *[64] * 6)), random.choice((0, 1, 2, 5, *[64] * 6))
        numbers[RECEIVED], numbers[RECEIVED_SIZE] = self._place(0, data, last=last), len(data)
        numbers[FRAME_LIMIT], numbers[HEADER_LIMIT] = 1 << 20, 1 << 12
        numbers[_OUT], numbers[_OUT_SIZE] = self._place(1, bytes(out_size), last=last), out_size
        numbers[_PLACES], numbers[_MOST_PLACES] = self._place(2, bytes(places * 16), last=last), places
        numbers[_STRETCHES], numbers[_MOST_STRETCHES] = self._place(3, bytes(stretches * 16), last=last), stretches
        numbers[_RUNS] = self._place(4, bytes(MOST_PULLS * RUN_WIDTH * 8), last=last)
        numbers[_SCRATCH] = self._place(5, bytes(NUMBERS * 8), last=last)
        files = self._files(last=last)
        numbers[FILES], numbers[FILE_COUNT] = self._place(6, files.tobytes(), last=last), len(files)
        shape = self._shape(number, near, last=last)
        known = self._memories[7].place_table(numbers, last=last)
        taken = take_pulls(int(known.ctypes.data), shape, 1, 0, len(data))
        assert 0 <= taken <= len(data) and 0 <= known[PULLS] <= MOST_PULLS
        assert 0 <= known[PLACE_COUNT] <= places and 0 <= known[RUN_COUNT] <= MOST_PULLS and known[SIZE] >= 0
        self.taken += int(known[PULLS])

    def _files(self, *, last: bool) -> Table:
        """One file of the log, or a part of it, as if it were each of them."""
        view = self._queues.log.chain.files[0].view
        size = self._random.choice((*[FILE_SIZE] * 4, FILE_SIZE - 1, 5_000))
        place = self._place(8, bytes(view[:size]), last=last)
        return np.array([(number * FILE_SIZE, size, place) for number in range(3)], np.int64)

    def _shape(self, number: int, near: int, *, last: bool) -> int:
        """A shape whose window and texts lie between guards."""
        row = np.array(self._queues.row(number, near), np.int64)
        shape = self._queues.shapes[number]
        count = self._random.choice((*[row[WINDOW_END] - row[WINDOW_BEGIN]] * 4, 50, 1))
        row[WINDOW_END] = row[WINDOW_BEGIN] + count
        row[WINDOW] = self._place(9, bytes(shape.view[: count * QUEUE_ENTRY_SIZE]), last=last)
        for memory, pattern in ((10, REQUEST), (11, ANSWER)):
            size = int(sum(row[pattern + step] for step in _PATTERN_STEPS))
            row[pattern] = self._place(memory, self._memories[memory].read(int(row[pattern]), size), last=last)
        assert len(row) == SHAPE_WIDTH
        return self._place(12, row.tobytes(), last=last)


def main(argument: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rounds = Rounds(Path(folder), len(argument))
        for _ in range(int(argument)):
            rounds.run()
    assert rounds.taken > int(argument) // 10, f"only {rounds.taken} pulls were taken"
    print(f"{argument} rounds")


if __name__ == "__main__":
    main(sys.argv[1])
