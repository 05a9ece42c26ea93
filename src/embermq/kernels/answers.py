"""The answers to plain SENDs that are stored: one frame a row, in the form of its request.

JSON answers are pieces of text with numbers and ids between them, binary ones the same as fields:

    {"code":0,"extFields":{"queueId":"▮","transactionId":"▮","msgId":"▮▮","TRACE_ON":"true","MSG_REGION":"…",
    "queueOffset":"▮"},"flag":1,"language":"PYTHON","opaque":▮,"serializeTypeCurrentRPC":"JSON","version":479}

For a batch, msgId is a list; a message that waits for its time has a `recallHandle` before all of it, in binary behind
the ids. The bytes are those of the broker's own answers.
"""

from __future__ import annotations

import json
import struct
from typing import Final, NamedTuple

from embermq.format.command import ANSWER, LANGUAGES, VERSION
from embermq.format.frame import BINARY_FORM, JSON_FORM
from embermq.kernels.columns import RECORD_POSITION, RECORD_WIDTH
from embermq.kernels.compiling import Table, inlined, kernel, part
from embermq.kernels.digits import count_digits, write_digits
from embermq.kernels.memory import address_of, copy, fits, get, load_u8, store_8, store_16, store_32
from embermq.kernels.send_rows import (
    ASKED,
    ASKED_SIZE,
    ASKS,
    ASKS_TIME,
    DRAFTS,
    FIRST_DRAFT,
    FORM,
    ONEWAY,
    OPAQUE,
    POSITION,
    QUEUE,
    QUEUE_OFFSET,
    ROW_SIZE,
    UNIQUE_AT,
    UNIQUE_SIZE,
    SendRows,
)
from embermq.model.properties import MSG_REGION, TRACE_ON

# Why it stopped.
ALL_DONE: Final = 0
OUTPUT_FULL: Final = 1  # the next answer needs more room
NOT_PLAIN: Final = 2  # the next row is for ordinary code

_HEAD_SIZE: Final = 8
_HEX_SIZE: Final = 16  # of a position in a message id
_LONGEST_NUMBER: Final = 20
_LONGEST_UNIQUE: Final = 64 * 1024  # no header holds a longer one
_PYTHON: Final = LANGUAGES.index("PYTHON")
_COMMA: Final = ord(",")
_RECORD_SIZE: Final = RECORD_WIDTH * 8

# The pieces that an AnswerTexts keeps, one after the other; their ends stand before them.
_BEFORE_QUEUE: Final = 0
_BEFORE_UNIQUE: Final = 1
_BEFORE_IDS: Final = 2
_BEFORE_OFFSET: Final = 3
_BEFORE_OPAQUE: Final = 4
_END: Final = 5
_BINARY_QUEUE: Final = 6
_BINARY_IDS: Final = 7
_BINARY_OFFSET: Final = 8
_BINARY_UNIQUE: Final = 9
_BINARY_END: Final = 10
_HOST: Final = 11  # an id is this and the position
_BEFORE_HANDLE: Final = 12  # together with what is behind it, instead of what else comes before the queue
_BEHIND_HANDLE: Final = 13
_BINARY_HANDLE: Final = 14
_PIECES: Final = 15


class Written(NamedTuple):
    """How far a call got."""

    rows: int
    size: int
    reason: int


def _field(name: str, value: bytes | None = None) -> bytes:
    """A field of a binary header; without a value, what comes before the size of one."""
    key = struct.pack(">h", len(name)) + name.encode()
    return key if value is None else key + struct.pack(">i", len(value)) + value


class AnswerTexts:
    """What all answers have in common, for a region and our own address as message ids have it (in hexadecimal)."""

    def __init__(self, region: str, host: bytes) -> None:
        pieces = (
            b'{"code":0,"extFields":{"queueId":"',
            b'","transactionId":"',
            b'","msgId":"',
            b'","TRACE_ON":"true","MSG_REGION":' + json.dumps(region).encode() + b',"queueOffset":"',
            b'"},"flag":1,"language":"PYTHON","opaque":',
            b',"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION,
            _field("queueId"),
            _field("msgId"),
            _field("queueOffset"),
            _field("transactionId"),
            _field(MSG_REGION, region.encode(errors="replace")) + _field(TRACE_ON, b"true"),
            host,
            b'{"code":0,"extFields":{"recallHandle":"',
            b'","queueId":"',
            _field("recallHandle"),
        )
        assert len(pieces) == _PIECES
        ends = [sum(map(len, pieces[: number + 1])) for number in range(_PIECES)]
        text = b"".join(pieces)
        self._memory = struct.pack(f"={_PIECES}q", *ends) + text + bytes(-len(text) % 8)
        self.address = address_of(self._memory)
        self.size = len(self._memory)


@part
def _piece_size(texts: int, number: int) -> int:
    return get(texts, number) - (get(texts, number - 1) if number > 0 else 0)


@part
def _write_piece(out: int, texts: int, number: int) -> int:
    size = _piece_size(texts, number)
    copy(out, texts + _PIECES * 8 + get(texts, number) - size, size)
    return out + size


@inlined
def _check_texts(texts: int, size: int) -> bool:
    """Whether the ends of the pieces rise and stay inside."""
    if size < _PIECES * 8:
        return False
    before = 0
    for number in range(_PIECES):
        end = get(texts, number)
        if end < before or end > size - _PIECES * 8:
            return False
        before = end
    return True


@part
def _write_position(out: int, position: int) -> int:
    for index in range(_HEX_SIZE):
        digit = position >> (60 - 4 * index) & 0xF
        store_8(out + index, digit + (0x30 if digit < 10 else 0x37))
    return out + _HEX_SIZE


@part
def _write_id(out: int, texts: int, position: int) -> int:
    return _write_position(_write_piece(out, texts, _HOST), position)


@part
def _ids_size(row: int, texts: int) -> int:
    """Bytes of a row's ids with the commas between them."""
    return get(row, DRAFTS) * (_piece_size(texts, _HOST) + _HEX_SIZE + 1) - 1


@part
def _write_ids(out: int, row: int, records: int, texts: int) -> int:
    out = _write_id(out, texts, get(row, POSITION))
    first = get(row, FIRST_DRAFT)
    for number in range(first + 1, first + get(row, DRAFTS)):
        store_8(out, _COMMA)
        out = _write_id(out + 1, texts, get(records + number * _RECORD_SIZE, RECORD_POSITION))
    return out


@part
def _are_stored(row: int, records: int, record_count: int) -> bool:
    """Whether it is known where the messages of a row are."""
    first, count = get(row, FIRST_DRAFT), get(row, DRAFTS)
    if get(row, POSITION) < 0 or count < 1:
        return False
    if count > 1 and not fits(first, count, record_count):
        return False
    number, end = first + 1, first + count
    while number < end and get(records + number * _RECORD_SIZE, RECORD_POSITION) >= 0:
        number += 1
    return number >= end


@part
def _is_alphanumeric(at: int, size: int) -> bool:
    for index in range(size):
        byte = load_u8(at + index)
        lower = byte | 0x20
        if not (0x30 <= byte <= 0x39 or 0x61 <= lower <= 0x7A):
            return False
    return True


@inlined
def _write_json(out: int, row: int, records: int, unique: int, handle: int, texts: int, size: int) -> None:
    store_32(out, _HEAD_SIZE - 4 + size)
    store_32(out + 4, JSON_FORM << 24 | size)
    out += _HEAD_SIZE
    if handle != 0:
        out = _write_piece(out, texts, _BEFORE_HANDLE)
        copy(out, handle, get(row, ASKED_SIZE))
        out = _write_piece(out + get(row, ASKED_SIZE), texts, _BEHIND_HANDLE)
    else:
        out = _write_piece(out, texts, _BEFORE_QUEUE)
    out = write_digits(out, get(row, QUEUE), count_digits(get(row, QUEUE)))
    out = _write_piece(out, texts, _BEFORE_UNIQUE)
    copy(out, unique, get(row, UNIQUE_SIZE))
    out = _write_piece(out + get(row, UNIQUE_SIZE), texts, _BEFORE_IDS)
    out = _write_ids(out, row, records, texts)
    out = _write_piece(out, texts, _BEFORE_OFFSET)
    out = write_digits(out, get(row, QUEUE_OFFSET), count_digits(get(row, QUEUE_OFFSET)))
    out = _write_piece(out, texts, _BEFORE_OPAQUE)
    out = write_digits(out, get(row, OPAQUE), count_digits(get(row, OPAQUE)))
    _write_piece(out, texts, _END)


@part
def _write_number_field(out: int, texts: int, piece: int, value: int) -> int:
    out = _write_piece(out, texts, piece)
    size = count_digits(value)
    store_32(out, size)
    return write_digits(out + 4, value, size)


@inlined
def _write_binary(out: int, row: int, records: int, unique: int, handle: int, texts: int, size: int) -> None:
    store_32(out, _HEAD_SIZE - 4 + size)
    store_32(out + 4, BINARY_FORM << 24 | size)
    store_16(out + 8, 0)
    store_8(out + 10, _PYTHON)
    store_16(out + 11, VERSION)
    store_32(out + 13, get(row, OPAQUE))
    store_32(out + 17, ANSWER)
    store_32(out + 21, 0)  # no remark
    store_32(out + 25, size - 21)
    out = _write_number_field(out + 29, texts, _BINARY_QUEUE, get(row, QUEUE))
    out = _write_piece(out, texts, _BINARY_IDS)
    store_32(out, _ids_size(row, texts))
    out = _write_ids(out + 4, row, records, texts)
    out = _write_number_field(out, texts, _BINARY_OFFSET, get(row, QUEUE_OFFSET))
    out = _write_piece(out, texts, _BINARY_UNIQUE)
    store_32(out, get(row, UNIQUE_SIZE))
    copy(out + 4, unique, get(row, UNIQUE_SIZE))
    out += 4 + get(row, UNIQUE_SIZE)
    if handle != 0:
        out = _write_piece(out, texts, _BINARY_HANDLE)
        store_32(out, get(row, ASKED_SIZE))
        copy(out + 4, handle, get(row, ASKED_SIZE))
        out += 4 + get(row, ASKED_SIZE)
    _write_piece(out, texts, _BINARY_END)


@inlined
def _header_size(row: int, handle: int, texts: int, fixed_json: int, fixed_binary: int) -> int:
    numbers = count_digits(get(row, QUEUE)) + count_digits(get(row, QUEUE_OFFSET))
    size = numbers + _ids_size(row, texts) + get(row, UNIQUE_SIZE)
    if get(row, FORM) == JSON_FORM:
        size += fixed_json + count_digits(get(row, OPAQUE))
        if handle != 0:
            whole = _piece_size(texts, _BEFORE_HANDLE) + _piece_size(texts, _BEHIND_HANDLE)
            size += get(row, ASKED_SIZE) + whole - _piece_size(texts, _BEFORE_QUEUE)
        return size
    if handle != 0:
        size += 4 + get(row, ASKED_SIZE) + _piece_size(texts, _BINARY_HANDLE)
    return size + fixed_binary


@inlined
def _is_plain(row: int, unique: int, scratch_size: int) -> bool:
    """Whether the numbers of a row are what they should be, and its unique id needs no escapes."""
    size, form = get(row, UNIQUE_SIZE), get(row, FORM)
    if size <= 0 or size > _LONGEST_UNIQUE or not fits(get(row, UNIQUE_AT), size, scratch_size):
        return False
    if get(row, QUEUE_OFFSET) < 0 or get(row, QUEUE) < 0:
        return False
    if get(row, ASKS) == ASKS_TIME and not fits(get(row, ASKED), get(row, ASKED_SIZE), scratch_size):
        return False
    if not -(2**31) <= get(row, OPAQUE) < 2**31:
        return False
    return form == BINARY_FORM or (form == JSON_FORM and _is_alphanumeric(unique, size))


@kernel("UniTuple(int64, 3)(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def write_answers(
    rows: int, count: int, records: int, record_count: int, scratch: int, scratch_size: int, texts: int,
    texts_size: int, out: int, out_size: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Write the answers to `count` rows, none for those that want none; see Written for what is returned.

    `records` has a row for every message.
    """
    at, end = out, out + out_size
    if not _check_texts(texts, texts_size):
        return 0, 0, NOT_PLAIN
    last = get(texts, _END)
    fixed_json, fixed_binary = last, get(texts, _BINARY_END) - last + 21 + 4 * 4
    for number in range(count):
        row = rows + number * ROW_SIZE
        if get(row, ONEWAY) != 0:
            continue
        unique = scratch + get(row, UNIQUE_AT)
        if not _is_plain(row, unique, scratch_size) or not _are_stored(row, records, record_count):
            return number, at - out, NOT_PLAIN
        handle = scratch + get(row, ASKED) if get(row, ASKS) == ASKS_TIME else 0
        size = _header_size(row, handle, texts, fixed_json, fixed_binary)
        if end - at < _HEAD_SIZE + size:
            return number, at - out, OUTPUT_FULL
        if get(row, FORM) == JSON_FORM:
            _write_json(at, row, records, unique, handle, texts, size)
        else:
            _write_binary(at, row, records, unique, handle, texts, size)
        at += _HEAD_SIZE + size
    return count, at - out, ALL_DONE


def answer_rows(
    from_: SendRows, begin: int, end: int, records: Table, texts: AnswerTexts, out: int, out_size: int
) -> Written:
    """The same for the rows [begin, end) of memory that belongs together."""
    assert records.shape[1] == RECORD_WIDTH
    if not 0 <= begin <= end <= from_.capacity:
        raise ValueError(f"rows {begin} to {end}; there are {from_.capacity}")
    return Written._make(
        write_answers(
            from_.rows_address + begin * ROW_SIZE, end - begin, int(records.ctypes.data), len(records),
            from_.scratch_address, from_.scratch_size, texts.address, texts.size, out, out_size,
        )
    )  # fmt: skip
