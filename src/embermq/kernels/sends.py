"""SENDs out of received bytes: frames, headers and properties of many messages in one call.

    source   ├ frame ┼ frame ┼ frame ┼ half a fr…        (see format/frame.py)
    rows     one a frame, as long as frames are plain SENDs (see send_rows.py)
    scratch  ├ properties ┼ properties ┼ properties ┤

A plain SEND is a request 310 or 10, with or without an answer, for one message that only has to be stored: the same
that the broker takes for plain. So is a request 320 for a batch; whether its messages are plain, too, is seen when
they become drafts (`batches.py`). The first frame that is none is where `parse_sends` stops. Ordinary code takes that
frame, and the kernel can go on behind it. What it takes it understands as ordinary code would; where it is not
sure, it stops.

Two things are left to the caller, because they are not in the frame: whether the topic is one that plain messages
may go to (`topics.py`), and whether it has the queue.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from embermq.format.frame import BINARY_FORM, DEFAULT_LIMITS, FRAME_HEAD, JSON_FORM, FrameLimits
from embermq.kernels.alike_headers import read_alike
from embermq.kernels.binary_headers import read_binary
from embermq.kernels.compiling import inlined, kernel, variable
from embermq.kernels.json_headers import read_json
from embermq.kernels.memory import get, load_i32, load_u8, put
from embermq.kernels.send_properties import SCRATCH_FULL as _NO_ROOM
from embermq.kernels.send_rows import (
    BODY_AT,
    BODY_SIZE,
    DRAFTS,
    FORM,
    PROPERTIES_SIZE,
    ROW_SIZE,
    TOPIC_AT,
    SendRows,
)

# Why it stopped.
ENDED: Final = 0  # less than a frame is left; a frame may have begun
NOT_PLAIN: Final = 1  # the next frame is whole, and for ordinary code
BAD_FRAME: Final = 2  # what follows is no frame
ROWS_FULL: Final = 3
SCRATCH_FULL: Final = 4  # if that is so without any row, the next frame is for ordinary code

_HEAD_SIZE: Final = FRAME_HEAD.size
_SIZE_SIZE: Final = 4


class Parsed(NamedTuple):
    """How far a call got."""

    rows: int
    consumed: int  # bytes of the source that the rows stand for
    scratch_used: int
    reason: int


class SendLimits(NamedTuple):
    """What is left to ordinary code, which refuses it."""

    frames: FrameLimits = DEFAULT_LIMITS
    body_size: int = 4 * 1024 * 1024
    properties_size: int = 32767  # as they come; what the broker adds is for the caller to take off


@inlined
def _check_head(at: int, left: int, frame_limit: int, header_limit: int) -> int:
    """Why the frame that begins at `at` cannot be read; -1 if it can."""
    if left < _HEAD_SIZE:
        return ENDED
    size, form = load_i32(at), load_u8(at + 4)
    header_size = load_i32(at + 4) & 0xFF_FFFF
    if size < _SIZE_SIZE or size > frame_limit - _SIZE_SIZE:
        return BAD_FRAME
    if header_size > size - _SIZE_SIZE or header_size > header_limit or form > BINARY_FORM:
        return BAD_FRAME
    return ENDED if left - _SIZE_SIZE < size else -1


@kernel("UniTuple(int64, 4)(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def parse_sends(
    source: int,
    size: int,
    frame_limit: int,
    header_limit: int,
    body_limit: int,
    properties_limit: int,
    scratch: int,
    scratch_size: int,
    rows: int,
    capacity: int,
) -> tuple[int, int, int, int]:
    """Read plain SENDs into `rows`; see Parsed for what is returned, and SendLimits for the limits."""
    at, limit = source, source + size
    out, out_end = scratch, scratch + scratch_size
    count = variable(0)
    model = model_begin = model_end = variable(0)  # the row of a JSON header that was read in full, and that header
    while True:
        reason = _check_head(at, limit - at, frame_limit, header_limit)
        if reason < 0 and count >= capacity:
            reason = ROWS_FULL
        if reason >= 0:
            return count, at - source, out - scratch, reason
        row = rows + count * ROW_SIZE
        form, header = load_u8(at + 4), at + _HEAD_SIZE
        body = header + (load_i32(at + 4) & 0xFF_FFFF)
        after = at + _SIZE_SIZE + load_i32(at)
        written = variable(-1)
        if model != 0 and form == JSON_FORM:
            written = read_alike(model, model_begin, model_end, header, body, limit, scratch, out, out_end, row)
        if written < 0:
            put(row, DRAFTS, 1)
            if form == JSON_FORM:
                is_plain, why, written = read_json(header, body, limit, scratch, out, out_end, row)
                model, model_begin, model_end = row, header, body
            else:
                is_plain, why, written = read_binary(header, body, limit, scratch, out, out_end, row)
            if not is_plain:
                return count, at - source, out - scratch, SCRATCH_FULL if why == _NO_ROOM else NOT_PLAIN
            put(row, TOPIC_AT, get(row, TOPIC_AT) - source)
        if after == body or after - body > body_limit or get(row, PROPERTIES_SIZE) > properties_limit:
            return count, at - source, out - scratch, NOT_PLAIN
        put(row, FORM, form)
        put(row, BODY_AT, body - source)
        put(row, BODY_SIZE, after - body)
        count += 1
        at, out = after, written


def parse_into(into: SendRows, source: int, size: int, limits: SendLimits) -> Parsed:
    """The same for memory that belongs together."""
    frames = limits.frames
    return Parsed._make(
        parse_sends(
            source, size, frames.frame_size, frames.header_size, limits.body_size, limits.properties_size,
            into.scratch_address, into.scratch_size, into.rows_address, into.capacity,
        )
    )  # fmt: skip
