"""What a record may have wrong though its sizes, its position and its body are right: its topic and its properties.

The records come as a table from scan_records. Where these kernels stop, plain code looks: `count_named` stops where
log.recovery.scan_log raises, `count_faultless` at every record that `verify` has anything to say about.
"""

from __future__ import annotations

from typing import Final

from embermq.format.property_crc import PROPERTY_CRC_SIZE
from embermq.kernels.columns import (
    RECORD_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_PROPERTIES_SIZE,
    RECORD_SIZE,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
)
from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.crc import crc32
from embermq.kernels.memory import find_byte, fits, get, load_i64, load_u8, row_at
from embermq.kernels.scanning import is_utf8
from embermq.model.properties import PROPERTY_CRC
from embermq.model.topic import MAX_FILE_NAME_SIZE

_CRC_NAME: Final = int.from_bytes(PROPERTY_CRC.encode(), "big")
_CRC_NAME_SIZE: Final = len(PROPERTY_CRC)
_CRC_NAME_END: Final = ord(PROPERTY_CRC[-1])  # seldom in properties otherwise
_CRC_MASK: Final = 0x7FFF_FFFF
_CRC_DIGITS: Final = 10
_DIGIT: Final = ord("0")
_DOT: Final = ord(".")
_SLASH: Final = ord("/")
_NAME_END: Final = 1
_VALUE_END: Final = 2
_I32: Final = 2**31

assert _CRC_NAME_SIZE == 8, "the name is compared as one number"


@part
def _is_directory_name(name: int, size: int) -> bool:
    """The same as model.topic.is_directory_name."""
    if size < 1 or size > MAX_FILE_NAME_SIZE:
        return False
    if load_u8(name) == _DOT and (size == 1 or (size == 2 and load_u8(name + 1) == _DOT)):
        return False
    end = name + size
    return find_byte(name, end, _SLASH) == end and find_byte(name, end, 0) == end


@part
def _has_right_crc(record: int, size: int) -> bool:
    """Whether format.property_crc.verify_property_crc says True."""
    begin = size - PROPERTY_CRC_SIZE
    if begin < 0:
        return False
    tail = record + begin
    if load_i64(tail) != _CRC_NAME or load_u8(tail + _CRC_NAME_SIZE) != _NAME_END:
        return False
    value = crc32(record, begin) & _CRC_MASK
    digits = tail + _CRC_NAME_SIZE + 1
    for number in range(_CRC_DIGITS):
        if load_u8(digits + number) != _DIGIT + value % 10:
            return False
        value //= 10
    return load_u8(digits + _CRC_DIGITS) == _VALUE_END


@part
def _names_crc(properties: int, size: int) -> bool:
    """Whether the name of the checksum is anywhere in the properties."""
    at, end = properties, properties + size
    while True:
        at = find_byte(at, end, _CRC_NAME_END) + 1
        if at > end:
            return False
        if at - properties >= _CRC_NAME_SIZE and load_i64(at - _CRC_NAME_SIZE) == _CRC_NAME:
            return True


@part
def _is_inside(record: int, position: int, size: int) -> bool:
    """Whether a record and its parts lie in memory of `size` bytes, cut from log `position`."""
    return (
        0 <= position <= get(record, RECORD_POSITION)
        and fits(get(record, RECORD_POSITION) - position, get(record, RECORD_SIZE), size)
        and get(record, RECORD_SIZE) < _I32  # a queue entry has no place for more
        and fits(get(record, RECORD_TOPIC_AT), get(record, RECORD_TOPIC_SIZE), size)
        and fits(get(record, RECORD_PROPERTIES_AT), get(record, RECORD_PROPERTIES_SIZE), size)
    )


@part
def _is_named(data: int, record: int) -> bool:
    return _is_directory_name(data + get(record, RECORD_TOPIC_AT), get(record, RECORD_TOPIC_SIZE))


@kernel("int64(int64, int64, int64, int64[:, ::1], boolean)")
def count_named(data: int, size: int, position: int, records: Table, needs_crc: bool) -> int:
    """How many of `records`, from the first on, have a topic that can be one, and the right checksum if they need it.

    They lie in the `size` bytes of memory at `data`, which were cut from log `position`.
    """
    if records.shape[1] != RECORD_WIDTH or size < 0:
        return 0
    for number in range(len(records)):
        record = row_at(records, number)
        if not _is_inside(record, position, size) or not _is_named(data, record):
            return number
        at = data + get(record, RECORD_POSITION) - position
        if needs_crc and not _has_right_crc(at, get(record, RECORD_SIZE)):
            return number
    return len(records)


@kernel("int64(int64, int64, int64, int64[:, ::1])")
def count_faultless(data: int, size: int, position: int, records: Table) -> int:
    """How many of `records`, from the first on, have nothing wrong with them: neither topic, properties nor checksum.

    They lie in the `size` bytes of memory at `data`, which were cut from log `position`.
    """
    if records.shape[1] != RECORD_WIDTH or size < 0:
        return 0
    for number in range(len(records)):
        record = row_at(records, number)
        if not _is_inside(record, position, size) or not _is_named(data, record):
            return number
        properties, properties_size = data + get(record, RECORD_PROPERTIES_AT), get(record, RECORD_PROPERTIES_SIZE)
        if properties_size == 0:
            continue
        end = properties + properties_size
        if load_u8(end - 1) == 0 or not is_utf8(properties, end, data + size):
            return number
        at = data + get(record, RECORD_POSITION) - position
        if _names_crc(properties, properties_size) and not _has_right_crc(at, get(record, RECORD_SIZE)):
            return number
    return len(records)
