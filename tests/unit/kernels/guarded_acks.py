"""Runs the kernel of acks on memory between guards. A program of its own: a kernel that errs ends it.

python -m tests.unit.kernels.guarded_acks COUNT: so many rounds; prints `COUNT rounds` at the end.
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np

from embermq.kernels.acks import (
    _ACKS_AT,
    _KNOWN,
    _MOST_ACKS,
    _OUT,
    _OUT_SIZE,
    _RUNS_AT,
    _SCRATCH,
    ACK_WIDTH,
    ACKS,
    ANSWERS_SIZE,
    FRAME_LIMIT,
    HEADER_LIMIT,
    RECEIVED,
    RECEIVED_SIZE,
    RUN_WIDTH,
    RUNS,
    SHAPE_WIDTH,
    take_acks,
)
from embermq.kernels.patterns import NUMBERS, PATTERN_WIDTH
from embermq.kernels.shapes import ANSWER, REQUEST
from tests.unit.kernels.acked_frames import a_frame, shape_table, shapes
from tests.unit.kernels.guarded_memory import GuardedMemory


class Rounds:
    """One round calls the kernel twice, with all it is given at one guard or the other."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._shapes = shapes()  # which keep the texts of their patterns
        self._table = shape_table(self._shapes)
        assert self._table.shape[1] == SHAPE_WIDTH
        self._memories = [GuardedMemory() for _ in range(7)]
        self._texts = [
            (number, pattern, GuardedMemory()) for number in range(len(self._table)) for pattern in (REQUEST, ANSWER)
        ]
        self.taken = 0

    def run(self) -> None:
        for last in (False, True):
            self._acks(last=last)

    def _acks(self, *, last: bool) -> None:
        random, received, out, acks, runs, scratch, known_at, table = self._random, *self._memories
        data = b"".join(a_frame(random) for _ in range(random.randrange(8)))
        if random.random() < 0.3:
            data = data[: random.randrange(len(data) + 1)]
        most, out_size = random.choice((0, 1, 2, 5, *[64] * 6)), random.choice((0, 1, 110, 130, 400, *[20_000] * 6))
        known = np.zeros(_KNOWN, np.int64)
        known[RECEIVED], known[RECEIVED_SIZE] = received.place(data, last=last), len(data)
        known[FRAME_LIMIT], known[HEADER_LIMIT] = 1 << 20, 1 << 12
        known[_OUT], known[_OUT_SIZE] = out.place(bytes(out_size), last=last), out_size
        known[_ACKS_AT], known[_MOST_ACKS] = acks.place(bytes(most * ACK_WIDTH * 8), last=last), most
        known[_RUNS_AT] = runs.place(bytes(most * RUN_WIDTH * 8), last=last)
        known[_SCRATCH] = scratch.place(bytes(NUMBERS * 8), last=last)
        rows = self._table.copy()
        for number, pattern, memory in self._texts:
            size = int(rows[number, pattern + 2 : pattern + PATTERN_WIDTH : 2].sum())
            rows[number, pattern] = memory.place(memory.read(int(rows[number, pattern]), size), last=last)
        given = known_at.place_table(known, last=last)
        count = len(rows) if random.random() < 0.9 else random.randrange(len(rows))
        taken = take_acks(int(given.ctypes.data), table.place(rows[:count].tobytes(), last=last), count, 0, len(data))
        assert 0 <= taken <= len(data) and 0 <= given[RUNS] <= given[ACKS] <= most
        assert 0 <= given[ANSWERS_SIZE] <= out_size
        self.taken += int(given[ACKS])


def main(argument: str) -> None:
    rounds = Rounds(len(argument))
    for _ in range(int(argument)):
        rounds.run()
    assert rounds.taken > int(argument) // 2, f"only {rounds.taken} acks were taken"
    print(f"{argument} rounds")


if __name__ == "__main__":
    main(sys.argv[1])
