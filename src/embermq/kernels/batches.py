"""Batches out of received bytes: the body of one frame becomes drafts, one a message, side by side.

    body     ├ message ┼ message ┼ message ┤        (see format/batch.py)
    texts    ├ properties ┼ properties ┼ properties ┤

What is plain here is what the broker keeps as it came: every message has a unique id and asks for nothing but to be
stored, and the batch has no property that its messages would have to be given. A batch that is not plain as a whole
is for ordinary code.
"""

from __future__ import annotations

from typing import Final

from embermq.kernels.columns import DRAFT_WIDTH
from embermq.kernels.compiling import part, variable
from embermq.kernels.memory import copy, find_byte, get, load_i32, load_u8, load_u16
from embermq.kernels.placing import fill_draft
from embermq.kernels.scanning import is_utf8
from embermq.kernels.send_properties import find_unique
from embermq.kernels.send_rows import BODY_SIZE, PROPERTIES_AT, PROPERTIES_SIZE, UNIQUE_AT, UNIQUE_SIZE
from embermq.kernels.sends import NOT_PLAIN, ROWS_FULL, SCRATCH_FULL

# size 4   magic 4   crc 4   flag 4   body size 4
_FLAG_AT: Final = 12
_BODY_SIZE_AT: Final = 16
_HEAD_SIZE: Final = 20
_I16: Final = 2**15

_NAME_END: Final = 1
_VALUE_END: Final = 2
_WAIT: Final = int.from_bytes(b"WAIT")
_WAIT_SIZE: Final = 5  # of the name and its end
_UNIQUE_NAME_SIZE: Final = len(b"UNIQ_KEY\x01")


@part
def _is_wait(at: int, end: int) -> bool:
    """Whether a piece of properties, without its end, is WAIT with a value."""
    return end - at > _WAIT_SIZE and load_i32(at) == _WAIT and load_u8(at + _WAIT_SIZE - 1) == _NAME_END


@part
def _has_wait(at: int, end: int) -> bool:
    while at < end:
        piece_end = find_byte(at, end, _VALUE_END)
        if _is_wait(at, piece_end):
            return True
        at = piece_end + 1
    return False


@part
def _find_shared(properties: int, row: int) -> int:
    """What a batch has for its messages, besides its own unique id: nothing (0), WAIT (1), or more (-1)."""
    unique = get(row, UNIQUE_AT) - get(row, PROPERTIES_AT)
    before, behind = unique - _UNIQUE_NAME_SIZE, unique + get(row, UNIQUE_SIZE) + 1
    size = get(row, PROPERTIES_SIZE)
    if before == 0 and behind == size:
        return 0
    if before != 0 and behind != size:
        return -1
    begin, end = (properties, properties + before) if before != 0 else (properties + behind, properties + size)
    piece_end = find_byte(begin, end, _VALUE_END)
    return 1 if piece_end == end - 1 and _is_wait(begin, piece_end) else -1


@part
def _measure(at: int, end: int) -> tuple[int, int]:
    """The sizes of body and properties of the message at `at`; -1 and -1 if there is none, or it is empty."""
    if end - at < _HEAD_SIZE:
        return -1, -1
    body_size, left = load_i32(at + _BODY_SIZE_AT), end - at - _HEAD_SIZE
    if body_size <= 0 or body_size > left - 2:
        return -1, -1
    size = load_u16(at + _HEAD_SIZE + body_size)
    if size >= _I16 or size > left - 2 - body_size:
        return -1, -1
    return body_size, size


@part
def draft_batch(
    row: int, properties: int, body: int, source: int, drafts: int, most: int, texts: int, used: int, texts_size: int,
    properties_limit: int, room: int, record_size: int, host: int, host_flag: int,
) -> tuple[int, int]:  # fmt: skip
    """Make the drafts of a batch: how many there are and how far the texts are used, or a reason and a negative number.

    The row's properties and body lie at these addresses; `source` and `texts` are where those of drafts count from.
    `room` is for all records together, and `record_size` what each needs besides its body and properties.
    """
    shared = _find_shared(properties, row)
    at, end, count = body, body + get(row, BODY_SIZE), variable(0)
    while at < end:
        body_size, size = _measure(at, end)
        if shared < 0 or size < 0 or size > properties_limit:
            return NOT_PLAIN, -1
        text = at + _HEAD_SIZE + body_size + 2
        unique, _ = find_unique(text, text + size, end)
        if unique == 0 or not is_utf8(text, text + size, end) or (shared == 1 and not _has_wait(text, text + size)):
            return NOT_PLAIN, -1
        room -= body_size + size + record_size
        if room < 0:
            return NOT_PLAIN, -1
        if count >= most:
            return ROWS_FULL, -1
        if size > texts_size - used:
            return SCRATCH_FULL, -1
        copy(texts + used, text, size)
        fill_draft(
            drafts + count * (DRAFT_WIDTH * 8), row, at + _HEAD_SIZE - source, body_size, used, size,
            load_i32(at + _FLAG_AT), host, host_flag,
        )  # fmt: skip
        used += size
        count += 1
        at = text + size
    return count, used
