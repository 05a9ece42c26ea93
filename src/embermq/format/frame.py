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


def split_frames(data: bytes, limits: FrameLimits = DEFAULT_LIMITS) -> tuple[list[Frame], int]:
    """The whole frames at the start of `data`, and how many bytes they take. Raises BadFrame."""
    frames: list[Frame] = []
    add = frames.append
    unpack, head_size = FRAME_HEAD.unpack_from, FRAME_HEAD.size
    largest, largest_header = limits.frame_size - _SIZE_SIZE, limits.header_size
    at, end = 0, len(data)
    while end - at >= head_size:
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


def missing_size(data: bytes) -> int:
    """How many bytes the frame that `data`, already checked, begins with still lacks; at least 1."""
    if len(data) < FRAME_HEAD.size:
        return FRAME_HEAD.size - len(data)
    return max(1, _SIZE_SIZE + int(FRAME_HEAD.unpack_from(data, 0)[0]) - len(data))


def encode_frame(form: int, header: bytes, body_size: int) -> bytes:
    """Everything of a frame but its body."""
    return FRAME_HEAD.pack(_SIZE_SIZE + len(header) + body_size, form << 24 | len(header)) + header
