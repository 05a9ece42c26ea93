"""Numbers as decimal text."""

from __future__ import annotations

from embermq.kernels.compiling import part
from embermq.kernels.memory import store_8


@part
def count_digits(value: int) -> int:
    """How many bytes a number takes; it is none whose negation is too large."""
    count = 2 if value < 0 else 1
    rest = abs(value)
    while rest >= 10:
        rest //= 10
        count += 1
    return count


@part
def write_digits(out: int, value: int, size: int) -> int:
    """Write a number, which takes `size` bytes; the byte after it."""
    rest = abs(value)
    at = out + size
    while True:
        at -= 1
        store_8(at, 0x30 + rest % 10)
        rest //= 10
        if rest == 0:
            break
    if value < 0:
        store_8(out, 0x2D)
    return out + size
