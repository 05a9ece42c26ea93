"""Requests whose like was seen before: frames without a body, and the shape that each has.

    shape    form │ pattern of the request │ pattern of the answer │ what its own kernel knows …

A shape is a row of a table that belongs to one connection, and to one kind of request.
"""

from __future__ import annotations

from typing import Final

from embermq.format.frame import FRAME_HEAD
from embermq.kernels.compiling import part
from embermq.kernels.memory import get, load_i32, store_32
from embermq.kernels.patterns import PATTERN_WIDTH, match_pattern

FORM: Final = 0
REQUEST: Final = 1
ANSWER: Final = REQUEST + PATTERN_WIDTH
FIRST_OWN: Final = ANSWER + PATTERN_WIDTH

# Why a kernel stopped.
ENDED: Final = 0  # less than a frame is left
ENOUGH: Final = 1  # what was taken is to be dealt with first
NOT_KNOWN: Final = 2  # the next frame is of no known shape, if it is one at all
NOT_PLAIN: Final = 3  # the next frame is of a known shape, and for ordinary code

HEAD_SIZE: Final = FRAME_HEAD.size
_SIZE_SIZE: Final = 4
_HEADER_MASK: Final = 0xFF_FFFF
_FORM_SHIFT: Final = 24


@part
def find_end(at: int, limit: int, frame_limit: int, header_limit: int) -> int:
    """Where the frame at `at` ends, which has no body; or minus the reason why there is none before `limit`."""
    if limit - at < HEAD_SIZE:
        return -ENDED
    size, header_size = load_i32(at), load_i32(at + 4) & _HEADER_MASK
    if size != header_size + _SIZE_SIZE or size > frame_limit - _SIZE_SIZE or header_size > header_limit:
        return -NOT_KNOWN
    return at + _SIZE_SIZE + size if _SIZE_SIZE + size <= limit - at else -ENDED


@part
def form_of(frame: int) -> int:
    return load_i32(frame + 4) >> _FORM_SHIFT


@part
def find_shape(shapes: int, count: int, width: int, first: int, frame: int, end: int, numbers: int) -> int:
    """The number of the shape of a frame's header, the one with number `first` tried first; -1 if there is none."""
    form = form_of(frame)
    for step in range(count):
        number = first + step if first + step < count else first + step - count
        shape = shapes + number * (width * 8)
        if get(shape, FORM) == form and match_pattern(shape + REQUEST * 8, frame + HEAD_SIZE, end, numbers):
            return number
    return -1


@part
def write_head(out: int, form: int, header_size: int, body_size: int) -> int:
    """Write what comes before a frame's header; the byte after it."""
    store_32(out, _SIZE_SIZE + header_size + body_size)
    store_32(out + 4, form << _FORM_SHIFT | header_size)
    return out + HEAD_SIZE
