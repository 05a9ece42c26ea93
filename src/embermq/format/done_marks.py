"""The bodies of done marks: which half messages ended, as offsets of their queue.

    17,            one
    0,1,2,3,6,8,   many, in the order in which they ended

Brokers up to 4.9 wrote one mark a message, without the comma.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SEPARATOR: Final = b","
MOST_DIGITS: Final = 19  # of a 64-bit number


def encode_done_marks(offsets: Iterable[int], *, max_size: int) -> list[tuple[bytes, int]]:
    """Bodies for these offsets, none longer than `max_size` unless one offset is, each with its largest offset."""
    bodies: list[tuple[bytes, int]] = []
    parts: list[bytes] = []
    size, highest = 0, -1
    for offset in offsets:
        part = b"%d," % offset
        if parts and size + len(part) > max_size:
            bodies.append((b"".join(parts), highest))
            parts, size, highest = [], 0, -1
        parts.append(part)
        size += len(part)
        highest = max(highest, offset)
    if parts:
        bodies.append((b"".join(parts), highest))
    return bodies


def decode_done_marks(body: bytes) -> list[int]:
    """The offsets that a body names; what is no number counts for nothing."""
    return [int(part) for part in body.split(SEPARATOR) if part.isdigit() and len(part) <= MOST_DIGITS]
