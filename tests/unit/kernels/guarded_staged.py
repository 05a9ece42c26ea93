"""Runs the kernels of staged messages on memory between guards. A program of its own: a kernel that errs ends it.

python -m tests.unit.kernels.guarded_staged COUNT: so many rounds; prints `COUNT rounds` at the end.
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np

from embermq.format.record import DraftFields
from embermq.format.staged import StagedMessage, encode_drafts_aside, encode_staged
from embermq.kernels.columns import DRAFT_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.staged import check_staged, draft_staged, keep_staged
from tests.unit.kernels.guarded_memory import GuardedMemory

NAMES = (b"DELAY", b"UNIQ_KEY", b"a")
HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
TOPIC = b"orders"


class Rounds:
    """One round calls every kernel, with all it is given at one guard or the other."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._memories = [GuardedMemory() for _ in range(12)]
        self.kept = self.drafts = 0

    def run(self) -> None:
        for last in (False, True):
            self._keep(last=last)
            self._draft(last=last)

    def _rows(self, first: int, *items: bytes, last: bool) -> Table:
        rows = np.zeros((len(items), 2), np.int64)
        for number, item in enumerate(items):
            rows[number] = self._memories[first + number].place(item, last=last), len(item)
        return rows

    def _spoiled(self, data: bytes) -> bytes:
        """The same bytes, or with a flaw, or fewer of them."""
        random = self._random
        changed = bytearray(data)
        if changed and random.random() < 0.4:
            for _ in range(random.choice((1, 1, 5))):
                changed[random.randrange(len(changed))] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        return bytes(changed[: random.randrange(len(changed) + 1)] if random.random() < 0.3 else changed)

    def _properties(self) -> bytes:
        random = self._random
        pairs = [(random.choice((b"b", b"TAGS", b"a long name of a property", *NAMES)), b"v" * random.randrange(3))]
        pairs *= random.randrange(3)
        return b"".join(b"%s\x01%s\x02" % pair for pair in [*pairs, (b"WAIT", b"true")])[random.choice((0, 0, 1)) :]

    def _keep(self, *, last: bool) -> None:
        random = self._random
        messages = [
            StagedMessage(random.choice((0, 3, 4, -1)), 0, 0, 0, random.randbytes(random.randrange(20)), properties)
            for properties in [self._properties() for _ in range(random.randrange(4))]
        ]
        data = self._spoiled(encode_staged(messages))
        source = self._memories[0].place(data, last=last)
        limits = np.array([4, random.choice((5, 100)), random.choice((10, 32_000)), 100], np.int64)
        count, read = check_staged(source, len(data), limits, self._rows(1, *NAMES, last=last))
        assert 0 <= count <= len(messages) + 1 and 0 <= read <= len(data)
        shared = self._rows(4, b"s" * random.choice((0, 20)), TOPIC, HOST, last=last)
        room = random.choice((0, 1, 50, 100, 4096))
        target = self._memories[7].place(bytes(room), last=last)
        used = keep_staged(source, random.choice((read, len(data))), shared, 0xFF, 0, target, room)
        assert 0 <= used <= room
        self.kept += count

    def _draft(self, *, last: bool) -> None:
        random = self._random
        drafts: list[DraftFields] = [
            (
                TOPIC,
                random.choice((0, 3, 4, -1)),
                b"x" * random.randrange(1, 20),
                self._properties(),
                0,
                0,
                0,
                HOST,
                0,
                0,
            )
            for _ in range(random.randrange(4))
        ]
        data = self._spoiled(encode_drafts_aside(drafts))
        source = self._memories[0].place(data, last=last)
        names, shared = self._rows(1, *NAMES, last=last), self._rows(4, b"", TOPIC, HOST, last=last)
        keys = self._rows(7, b"UNIQ_KEY\x01", b"F" * 8, b"S" * 16, last=last)
        room = random.choice((0, 1, 60, 100, 4096, 4096))
        texts = self._memories[10].place(bytes(room), last=last)
        rows = np.zeros((random.choice((0, 1, 4, 4)), DRAFT_WIDTH), np.int64)
        table = self._memories[11].place_table(rows, last=last)
        made, used = draft_staged(source, len(data), shared, names, keys, 65_535, 4, texts, room, table)
        assert 0 <= made <= len(rows) and 0 <= used <= room
        self.drafts += made


def main(count: str) -> None:
    rounds = Rounds(1)
    for _ in range(int(count)):
        rounds.run()
    assert rounds.kept and rounds.drafts
    print(f"{count} rounds")


if __name__ == "__main__":
    main(sys.argv[1])
