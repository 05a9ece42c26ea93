"""The records that log memory holds, as a table: what format.record.scan_record finds, many at a time."""

from __future__ import annotations

from typing import Final

from embermq.format.host import HOST_V4_SIZE, HOST_V6_SIZE
from embermq.format.record_layout import (
    FRAME,
    HEADS,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MAX_PROPERTIES_SIZE,
    MAX_V1_TOPIC_SIZE,
)
from embermq.kernels.columns import (
    CHANGED,
    CUT_OFF,
    DONE,
    ENDED,
    FULL,
    MISPLACED,
    MISUSED,
    NO_MAGIC,
    NOT_TEXT,
    RECORD_BODY_AT,
    RECORD_BODY_SIZE,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_PREPARED_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_PROPERTIES_SIZE,
    RECORD_QUEUE,
    RECORD_SIZE,
    RECORD_STORE_TIME,
    RECORD_SYS_FLAG,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
    UNEVEN,
)
from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.crc import crc32
from embermq.kernels.memory import get, load_i32, load_i64, load_u8, load_u16, load_u32, put, row_at
from embermq.kernels.text import hash_text
from embermq.model.flags import SysFlag

_BORN_V6: Final = SysFlag.BORN_HOST_V6
_STORE_V6: Final = SysFlag.STORE_HOST_V6
_FRAME_SIZE: Final = FRAME.size
_HEAD_SIZE: Final = HEADS[0].size  # with two hosts of 8 bytes
LONGER: Final = HOST_V6_SIZE - HOST_V4_SIZE  # bytes that a host of IPv6 has more
_MAX_V2_TOPIC_SIZE: Final = 0x7FFF
CRC_MASK: Final = 0x7FFF_FFFF
LAST_POSITION: Final = 2**63 - 1


@part
def _end_reason(address: int, left: int) -> int:
    """What bytes are that do not begin with a whole head of a record: the end of a file, or damage."""
    if left < _FRAME_SIZE:
        return ENDED
    size, magic = load_u32(address), load_u32(address + 4)
    if magic in (MAGIC_V1, MAGIC_V2):
        return CUT_OFF
    if magic != MAGIC_BLANK and (size or magic):
        return NO_MAGIC
    return ENDED


@part
def _scan_tail(address: int, tail_size: int, is_v1: bool, check_topic: bool, record: int) -> int:
    """Take topic and properties from the `tail_size` bytes behind a body: their places count from there."""
    width = 1 if is_v1 else 2
    if tail_size < width:
        return UNEVEN
    topic_size = load_u8(address) if is_v1 else load_u16(address)
    topic_end = width + topic_size
    if tail_size < topic_end + 2:
        return UNEVEN
    properties_size = load_u16(address + topic_end)
    if (
        properties_size != tail_size - topic_end - 2
        or properties_size > MAX_PROPERTIES_SIZE
        or topic_size > (MAX_V1_TOPIC_SIZE if is_v1 else _MAX_V2_TOPIC_SIZE)
    ):
        return UNEVEN
    if check_topic and hash_text(address + width, topic_size, 0) < 0:
        return NOT_TEXT
    put(record, RECORD_TOPIC_AT, width)
    put(record, RECORD_TOPIC_SIZE, topic_size)
    put(record, RECORD_PROPERTIES_AT, topic_end + 2)
    put(record, RECORD_PROPERTIES_SIZE, properties_size)
    return DONE


@part
def scan_one(data: int, size: int, at: int, position: int, check_topic: bool, check_body: bool, record: int) -> int:
    """Take the record at byte `at`; the checks come in the order of format.record.scan_record.

    Without `check_topic`, the caller sees to it that the topic is text.
    """
    address, left = data + at, size - at
    if left < _HEAD_SIZE:
        return _end_reason(address, left)
    record_size, magic, sys_flag = load_u32(address), load_u32(address + 4), load_i32(address + 36)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return _end_reason(address, left)
    store_time_at = 56 + (LONGER if sys_flag & _BORN_V6 else 0)
    retries_at = store_time_at + 16 + (LONGER if sys_flag & _STORE_V6 else 0)
    head_size = retries_at + 16
    if left < head_size:
        return CUT_OFF
    if load_i64(address + 28) != position:
        return MISPLACED
    body_size = load_i32(address + head_size - 4)
    if record_size > left or body_size < 0:
        return CUT_OFF
    tail_at = head_size + body_size
    reason = _scan_tail(address + tail_at, record_size - tail_at, magic == MAGIC_V1, check_topic, record)
    if reason != DONE:
        return reason
    if check_body and crc32(address + head_size, body_size) & CRC_MASK != load_i32(address + 8):
        return CHANGED
    put(record, RECORD_POSITION, position)
    put(record, RECORD_SIZE, record_size)
    put(record, RECORD_TOPIC_AT, get(record, RECORD_TOPIC_AT) + at + tail_at)
    put(record, RECORD_QUEUE, load_i32(address + 12))
    put(record, RECORD_OFFSET, load_i64(address + 20))
    put(record, RECORD_SYS_FLAG, sys_flag)
    put(record, RECORD_STORE_TIME, load_i64(address + store_time_at))
    put(record, RECORD_BODY_AT, at + head_size)
    put(record, RECORD_BODY_SIZE, body_size)
    put(record, RECORD_PROPERTIES_AT, get(record, RECORD_PROPERTIES_AT) + at + tail_at)
    put(record, RECORD_PREPARED_POSITION, load_i64(address + retries_at + 4))
    return DONE


@kernel("UniTuple(int64, 3)(int64, int64, int64, boolean, int64[:, ::1])")
def scan_records(data: int, size: int, position: int, check_body: bool, records: Table) -> tuple[int, int, int]:
    """Fill `records` with the records that `size` bytes of memory, cut from log `position`, begin with.

    Returns how many were found, where the last of them ends, and why it went no further: FULL if `records` is,
    ENDED where the records of a file end, else what is wrong with the bytes there.
    """
    if records.shape[1] != RECORD_WIDTH or size < 0 or not 0 <= position <= LAST_POSITION - size:
        return 0, 0, MISUSED
    at = 0
    for number in range(records.shape[0]):
        record = row_at(records, number)
        reason = scan_one(data, size, at, position + at, True, check_body, record)
        if reason != DONE:
            return number, at, reason
        at += get(record, RECORD_SIZE)
    return records.shape[0], at, FULL
