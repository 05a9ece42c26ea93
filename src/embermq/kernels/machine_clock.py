"""The machine's clock, as kernels read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from numba import types

from embermq.kernels.compiling import part
from embermq.kernels.memory import get

CLOCK_WIDTH: Final = 2  # numbers that a reading needs
_WALL: Final = 0
_read_clock = cast(
    "Callable[[int, int], int]", types.ExternalFunction("clock_gettime", types.int64(types.int64, types.int64))
)


@part
def wall_ms(room: int) -> int:
    """Milliseconds since 1970. The numbers at the address `room` are overwritten."""
    _read_clock(_WALL, room)
    return get(room, 0) * 1000 + get(room, 1) // 1_000_000
