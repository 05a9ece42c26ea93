"""Frames: how commands follow each other on a connection.

    size 4   (of all that follows)
    form 1   0: the header is JSON, 1: it is binary
    header size 3
    header
    body     the rest

Sizes are checked before anything of that size is kept.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from embermq.errors import BadFrame

JSON_FORM: Final = 0
BINARY_FORM: Final = 1

MAX_FRAME_SIZE: Final = 16 * 1024 * 1024  # with the size field
MAX_HEADER_SIZE: Final = 64 * 1024

FRAME_HEAD: Final = struct.Struct(">ii")  # size, then form and header size
_SIZE_SIZE: Final = 4
_HEADER_MASK: Final = 0xFF_FFFF


Frame = tuple[int, bytes, bytes]  # form, header and body; plain, because every message comes in one


class FrameLimits(NamedTuple):
    """What is refused."""

    frame_size: int = MAX_FRAME_SIZE
    header_size: int = MAX_HEADER_SIZE


DEFAULT_LIMITS: Final = FrameLimits()


def split_frames(
    data: bytes, limits: FrameLimits = DEFAULT_LIMITS, *, begin: int = 0, most: int = MAX_FRAME_SIZE
) -> tuple[list[Frame], int]:
    """The whole frames of `data` from `begin` on, `most` at most, and where they end. Raises BadFrame."""
    frames: list[Frame] = []
    add = frames.append
    unpack, head_size = FRAME_HEAD.unpack_from, FRAME_HEAD.size
    largest, largest_header = limits.frame_size - _SIZE_SIZE, limits.header_size
    at, end = begin, len(data)
    while end - at >= head_size and len(frames) < most:
        size, form_and_header = unpack(data, at)
        header_size = form_and_header & _HEADER_MASK
        form = form_and_header >> 24
        if not _SIZE_SIZE <= size <= largest:
            raise BadFrame(f"a frame of {size} bytes; allowed are {_SIZE_SIZE} to {largest}")
        if header_size > size - _SIZE_SIZE or header_size > largest_header:
            raise BadFrame(f"a header of {header_size} bytes in a frame of {size}; the limit is {largest_header}")
        if form not in (JSON_FORM, BINARY_FORM):
            raise BadFrame(f"a header of form {form}; 0 (JSON) and 1 (binary) are known")
        body = at + head_size + header_size
        after = at + _SIZE_SIZE + size
        if after > end:
            break
        add((form, data[at + head_size : body], data[body:after]))
        at = after
    return frames, at


def whole_size(data: bytes) -> int:
    """The size of the frame that `data`, already checked, begins with; of its head, if not even that is whole."""
    return _SIZE_SIZE + int(FRAME_HEAD.unpack_from(data, 0)[0]) if len(data) >= FRAME_HEAD.size else FRAME_HEAD.size


def encode_frame(form: int, header: bytes, body_size: int) -> bytes:
    """Everything of a frame but its body."""
    return FRAME_HEAD.pack(_SIZE_SIZE + len(header) + body_size, form << 24 | len(header)) + header
