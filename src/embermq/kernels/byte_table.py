"""Short byte strings by number, for kernels: the topics and hosts that records are made with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from embermq.kernels.columns import BYTES_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of


class ByteTable:
    """Gives every byte string a number, from 0 on, and keeps it in memory. It only grows.

    `rows` is what a kernel is given: the address and the size of each. It is another array after every
    new byte string.
    """

    def __init__(self, *items: bytes) -> None:
        self._numbers: dict[bytes, int] = {}
        self._room: Table = np.zeros((8, BYTES_WIDTH), np.int64)
        self.rows: Table = self._room[:0]
        for item in items:
            self.number_of(item)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._numbers)

    def number_of(self, item: bytes) -> int:
        """The number of `item`; a new one gets the next."""
        number = self._numbers.get(item)
        return self._add(item) if number is None else number

    def _add(self, item: bytes) -> int:
        number = len(self._numbers)
        if number == len(self._room):
            self._room = np.concatenate([self._room, np.zeros_like(self._room)])
        self._numbers[item] = number  # keeps the bytes where they are
        self._room[number] = address_of(item), len(item)
        self.rows = self._room[: number + 1]
        return number
