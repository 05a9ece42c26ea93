"""The fields of a SEND, which both forms of a header have: which one a name means, and what its text says."""

from __future__ import annotations

from typing import Final

from embermq.kernels.asked_properties import find_asked
from embermq.kernels.compiling import part
from embermq.kernels.memory import get, load_u8, put
from embermq.kernels.scanning import peek, read_number, read_word
from embermq.kernels.send_properties import find_unique
from embermq.kernels.send_rows import (
    ASKS,
    ASKS_NOTHING,
    BORN_TIME,
    DRAFTS,
    FLAG,
    PROPERTIES_AT,
    PROPERTIES_SIZE,
    QUEUE,
    SYS_FLAG,
    UNIQUE_AT,
    UNIQUE_SIZE,
)
from embermq.model.flags import SysFlag

# Fields that are numbers have the number of their column.
RETRIES_FIELD: Final = 5
BATCH_FIELD: Final = 6
TOPIC_FIELD: Final = 7
PROPERTIES_FIELD: Final = 8
OTHER_FIELD: Final = 0
NEEDED: Final = 1 << QUEUE | 1 << SYS_FLAG | 1 << BORN_TIME | 1 << FLAG | 1 << TOPIC_FIELD | 1 << PROPERTIES_FIELD
ALL_FIELDS: Final = NEEDED | 1 << RETRIES_FIELD | 1 << BATCH_FIELD

SEND: Final = 10  # fields by their full names
SEND_SHORT: Final = 310  # fields named by a letter
SEND_BATCH: Final = 320  # the same for a batch

_I32: Final = 2**31
_CLIENTS_FLAGS: Final = int(SysFlag.COMPRESSED | SysFlag.MULTI_TAG | SysFlag.COMPRESSION_MASK)

_TOPIC_NAME: Final = int.from_bytes(b"topic")
_QUEUE_NAME: Final = int.from_bytes(b"queueId")
_SYS_FLAG_NAME: Final = int.from_bytes(b"sysFlag")
_FLAG_NAME: Final = int.from_bytes(b"flag")
_BATCH_NAME: Final = int.from_bytes(b"batch")
_PROPERTIES_NAME: Final = (int.from_bytes(b"properti"), int.from_bytes(b"es"))
_BORN_TIME_NAME: Final = (int.from_bytes(b"bornTime"), int.from_bytes(b"stamp"))
_RETRIES_NAME: Final = (int.from_bytes(b"reconsum"), int.from_bytes(b"eTimes"))
_FALSE: Final = int.from_bytes(b"false")
_TRUE: Final = int.from_bytes(b"true")


@part
def _find_letter(letter: int) -> int:
    if letter == 0x62:  # b
        return TOPIC_FIELD
    if letter == 0x65:  # e
        return QUEUE
    if letter == 0x66:  # f
        return SYS_FLAG
    if letter == 0x67:  # g
        return BORN_TIME
    if letter == 0x68:  # h
        return FLAG
    if letter == 0x69:  # i
        return PROPERTIES_FIELD
    if letter == 0x6A:  # j
        return RETRIES_FIELD
    return BATCH_FIELD if letter == 0x6D else OTHER_FIELD  # m


@part
def _find_name(at: int, size: int) -> int:
    if size <= 8:
        word = read_word(at, size)
        if size == 5:
            return TOPIC_FIELD if word == _TOPIC_NAME else BATCH_FIELD if word == _BATCH_NAME else OTHER_FIELD
        if size == 7:
            return QUEUE if word == _QUEUE_NAME else SYS_FLAG if word == _SYS_FLAG_NAME else OTHER_FIELD
        return FLAG if size == 4 and word == _FLAG_NAME else OTHER_FIELD
    first, rest = read_word(at, min(size, 8)), read_word(at + 8, min(size - 8, 8))
    if size == 10 and first == _PROPERTIES_NAME[0] and rest == _PROPERTIES_NAME[1]:
        return PROPERTIES_FIELD
    if size == 13 and first == _BORN_TIME_NAME[0] and rest == _BORN_TIME_NAME[1]:
        return BORN_TIME
    if size == 14 and first == _RETRIES_NAME[0] and rest == _RETRIES_NAME[1]:
        return RETRIES_FIELD
    return OTHER_FIELD


@part
def find_field(code: int, at: int, size: int) -> int:
    """The field that a name means in a request of this code."""
    if code == SEND:
        return _find_name(at, size)
    return _find_letter(load_u8(at)) if size == 1 else OTHER_FIELD


@part
def take_number(field: int, at: int, end: int, row: int) -> int:
    """Keep the number of a field, or make sure that it says nothing unusual; the byte after it, -1 if it does."""
    if field == BATCH_FIELD:
        word = peek(at, end)
        if word >> 32 == _TRUE:
            put(row, DRAFTS, 0)
            return at + 4
        return at + 5 if word >> 24 == _FALSE else -1
    value, after = read_number(at, end)
    if field == RETRIES_FIELD:
        return after if value == 0 else -1
    if field == SYS_FLAG:
        if not -_I32 <= value < _I32:
            return -1
        value &= _CLIENTS_FLAGS
    elif value < (-_I32 if field == FLAG else 0) or (field != BORN_TIME and value >= _I32):
        return -1
    put(row, field, value)
    return after


@part
def is_send(code: int) -> bool:
    """Whether a request of this code brings messages."""
    return code in (SEND_SHORT, SEND, SEND_BATCH)


@part
def is_batch_as_told(code: int, row: int) -> bool:
    """Whether the field that says so has a batch where the code does."""
    return (get(row, DRAFTS) == 0) == (code == SEND_BATCH)


@part
def keep_properties(begin: int, end: int, limit: int, scratch: int, row: int) -> bool:
    """Keep where the properties lie, [begin, end), and their unique id; False if they ask for what is not done here."""
    put(row, ASKS, ASKS_NOTHING)
    value, value_end = find_unique(begin, end, limit)
    if value == 0:
        value, value_end = find_asked(begin, end, limit, scratch, row)
        if value == 0:
            return False
    put(row, PROPERTIES_AT, begin - scratch)
    put(row, PROPERTIES_SIZE, end - begin)
    put(row, UNIQUE_AT, value - scratch)
    put(row, UNIQUE_SIZE, value_end - value)
    return True
