"""Runs the kernels that scans use on memory between guards. A program of its own, because one that errs ends it.

python -m tests.unit.kernels.guarded_scans COUNT: so many rounds; prints `COUNT rounds` at the end.
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np

from embermq.kernels.columns import PAIR_WIDTH, RECORD_WIDTH, ROW_WIDTH, VALUE_WIDTH
from embermq.kernels.property_split import split_properties
from embermq.kernels.row_scan import SCRATCH_ROWS, find_rows
from embermq.kernels.span_copy import SPARE, copy_spans
from embermq.kernels.topics import TopicTable
from tests.unit.kernels.guarded_memory import GuardedMemory
from tests.unit.kernels.kernel_builders import (
    HOSTS,
    NUMBERS,
    a_log,
    damaged,
    random_draft,
    random_properties,
    table,
)


class Rounds:
    """One round calls every kernel twice, with all it is given at one guard or the other."""

    def __init__(self) -> None:
        self._memories = [GuardedMemory() for _ in range(5)]

    def run(self, random: Random) -> None:
        self.rows(random)
        self.properties(random)
        self.spans(random)

    def rows(self, random: Random) -> None:
        drafts = [random_draft(random) for _ in range(random.randrange(1, 6))]
        data = a_log(drafts, store_host=random.choice(HOSTS))
        data = damaged(random, data) if random.random() < 0.7 else data
        names = [draft.topic for draft in drafts if draft.topic and random.random() < 0.9]
        topics = TopicTable({name: number for number, name in enumerate(names)})
        places = np.array([random.choice((0, *NUMBERS, len(data))) for _ in range(random.randrange(4))], np.int64)
        for last in (False, True):
            memory, rows_memory, scratch_memory, places_memory, wanted_memory = self._memories
            address = memory.place(data, last=last)
            rows = rows_memory.place_table(table(ROW_WIDTH, random.randrange(1, 8)), last=last)
            scratch = scratch_memory.place_table(table(SCRATCH_ROWS, RECORD_WIDTH), last=last)
            given = places_memory.place_table(places, last=last)
            wanted = wanted_memory.place_table(np.array([1, 0, 1], np.int64), last=last)
            for is_chain in (False, True):
                stop = random.choice((len(data), len(data) + 100, random.randrange(len(data) + 1), *NUMBERS))
                find_rows(
                    address, len(data), random.choice((0, 0, 100, *NUMBERS)), stop, given, is_chain,
                    random.random() < 0.5, random.random() < 0.5, topics.address, topics.size, wanted,
                    -(2**63), 2**63 - 1, scratch, rows,
                )  # fmt: skip

    def properties(self, random: Random) -> None:
        blocks = [random_properties(random) for _ in range(random.randrange(1, 5))]
        data = b"".join(blocks)
        if random.random() < 0.3:
            data = random.randbytes(len(data))
        sizes = np.array([len(block) for block in blocks], np.int64)
        places = np.cumsum(sizes) - sizes
        if random.random() < 0.3:
            places[random.randrange(len(places))] = random.choice((*NUMBERS, len(data)))
        for last in (False, True):
            memory, pairs_memory, values_memory, places_memory, sizes_memory = self._memories
            address = memory.place(data, last=last)
            pairs = pairs_memory.place_table(table(PAIR_WIDTH, random.randrange(1, 30)), last=last)
            values = values_memory.place_table(table(VALUE_WIDTH, len(blocks)), last=last)
            split_properties(
                address, len(data), places_memory.place_table(places, last=last),
                sizes_memory.place_table(sizes, last=last), random.random() < 0.5,
                np.zeros(len(blocks), np.int32), pairs, values,
            )  # fmt: skip

    def spans(self, random: Random) -> None:
        data = random.randbytes(random.randrange(200))
        count = random.randrange(1, 6)
        places = np.array([random.randrange(len(data) + 1) for _ in range(count)], np.int64)
        sizes = np.array([random.choice((-1, 0, random.randrange(60), *NUMBERS)) for _ in range(count)], np.int64)
        room = random.choice((0, SPARE, 100, 400))
        for last in (False, True):
            memory, target_memory, places_memory, sizes_memory, _ = self._memories
            copy_spans(
                memory.place(data, last=last), len(data), places_memory.place_table(places, last=last),
                sizes_memory.place_table(sizes, last=last), np.zeros(count + 1, np.int32),
                target_memory.place(bytes(room), last=last), room,
            )  # fmt: skip


def main(count: str) -> None:
    rounds = Rounds()
    for number in range(int(count)):
        rounds.run(Random(number))
    print(f"{count} rounds")


if __name__ == "__main__":
    main(sys.argv[1])
