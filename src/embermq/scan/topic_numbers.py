"""Topics by number, and whether each is wanted: asked once for each topic, however many records it has.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class TopicNumbers:
    """Numbers from 0 on, in the order in which topics are met."""

    def __init__(self, accepts: Callable[[str], bool]) -> None:
        self._accepts = accepts
        self._numbers: dict[bytes, int] = {}
        self._names: list[str] = []
        self._array: pa.Array | None = None
        self._room: npt.NDArray[np.int64] = np.zeros(16, np.int64)

    @property
    def wanted(self) -> npt.NDArray[np.int64]:
        """1 for each topic that is wanted, by number."""
        return self._room[: len(self._names)]

    @property
    def names(self) -> pa.Array:
        """The names by number."""
        if self._array is None:
            self._array = pa.array(self._names, pa.string())
        return self._array

    def find(self, name: bytes) -> int | None:
        return self._numbers.get(name)

    def number_of(self, name: str) -> int | None:
        return self._numbers.get(name.encode())

    def add(self, name: bytes) -> int:
        """The number of a topic. Raises UnicodeDecodeError for one that is not text."""
        known = self._numbers.get(name)
        if known is not None:
            return known
        text = name.decode()
        number = len(self._names)
        if number == len(self._room):
            self._room = np.concatenate([self._room, np.zeros_like(self._room)])
        self._room[number] = self._accepts(text)
        self._names.append(text)
        self._array = None
        self._numbers[name] = number
        return number
