"""The records of log memory as columns: those of wanted topics and times, one after the other or at given places."""

from __future__ import annotations

from typing import Final

from embermq.kernels.columns import (
    CHANGED,
    DONE,
    FULL,
    MISUSED,
    NEW_TOPIC,
    OUTSIDE,
    RECORD_BODY_AT,
    RECORD_BODY_SIZE,
    RECORD_OFFSET,
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
    ROW_AT,
    ROW_BODY_AT,
    ROW_BODY_CRC,
    ROW_BODY_SIZE,
    ROW_BORN_HOST,
    ROW_BORN_TIME,
    ROW_FLAG,
    ROW_OFFSET,
    ROW_PREPARED_POSITION,
    ROW_PROPERTIES_AT,
    ROW_PROPERTIES_SIZE,
    ROW_QUEUE,
    ROW_RECONSUME_TIMES,
    ROW_SIZE,
    ROW_STORE_HOST,
    ROW_STORE_TIME,
    ROW_SYS_FLAG,
    ROW_TOPIC,
    ROW_WIDTH,
)
from embermq.kernels.compiling import Table, inlined, kernel, part
from embermq.kernels.crc import crc32
from embermq.kernels.memory import get, is_same, load_i32, load_i64, put, row_at
from embermq.kernels.record_scan import CRC_MASK, LAST_POSITION, LONGER, scan_one
from embermq.kernels.topics import find_topic
from embermq.model.flags import SysFlag

_BORN_V6: Final = SysFlag.BORN_HOST_V6
_RECENT: Final = 8  # topics that were met last are kept at hand, one for each remainder of their sizes
_TOPIC_ADDRESS, _TOPIC_SIZE, _TOPIC_NUMBER = range(3)
SCRATCH_ROWS: Final = 1 + _RECENT


@inlined
def _put_row(data: int, at: int, record: int, topic: int, with_rest: bool, rows: Table, number: int) -> None:
    """Write a record that was scanned into the columns; into those from ROW_PREPARED_POSITION on only `with_rest`."""
    address, sys_flag, body_at = data + at, get(record, RECORD_SYS_FLAG), get(record, RECORD_BODY_AT)
    rows[ROW_AT, number] = at
    rows[ROW_SIZE, number] = get(record, RECORD_SIZE)
    rows[ROW_TOPIC, number] = topic
    rows[ROW_QUEUE, number] = get(record, RECORD_QUEUE)
    rows[ROW_OFFSET, number] = get(record, RECORD_OFFSET)
    rows[ROW_SYS_FLAG, number] = sys_flag
    rows[ROW_STORE_TIME, number] = get(record, RECORD_STORE_TIME)
    rows[ROW_BODY_AT, number] = body_at
    rows[ROW_BODY_SIZE, number] = get(record, RECORD_BODY_SIZE)
    rows[ROW_PROPERTIES_AT, number] = get(record, RECORD_PROPERTIES_AT)
    rows[ROW_PROPERTIES_SIZE, number] = get(record, RECORD_PROPERTIES_SIZE)
    if not with_rest:
        return
    rows[ROW_PREPARED_POSITION, number] = get(record, RECORD_PREPARED_POSITION)
    rows[ROW_FLAG, number] = load_i32(address + 16)
    rows[ROW_BODY_CRC, number] = load_i32(address + 8)
    rows[ROW_BORN_TIME, number] = load_i64(address + 40)
    rows[ROW_BORN_HOST, number] = load_i64(address + 48)
    rows[ROW_STORE_HOST, number] = load_i64(address + 64 + (LONGER if sys_flag & _BORN_V6 else 0))
    rows[ROW_RECONSUME_TIMES, number] = load_i32(data + body_at - 16)


@part
def _is_body_whole(data: int, at: int, record: int) -> bool:
    body = data + get(record, RECORD_BODY_AT)
    return crc32(body, get(record, RECORD_BODY_SIZE)) & CRC_MASK == load_i32(data + at + 8)


@kernel(
    "UniTuple(int64, 4)(int64, int64, int64, int64, int64[::1], boolean, boolean, boolean, int64, int64,"
    "int64[::1], int64, int64, int64[:, ::1], int64[:, ::1])"
)
def find_rows(
    data: int,
    size: int,
    position: int,
    stop: int,
    places: Table,
    is_chain: bool,
    check_body: bool,
    with_rest: bool,
    topics: int,
    topics_size: int,
    wanted: Table,
    begin_time: int,
    end_time: int,
    scratch: Table,
    rows: Table,
) -> tuple[int, int, int, int]:
    """Fill the columns `rows` with records from `size` bytes of memory, cut from log `position`.

    Of a chain, the records from byte 0 on that begin before byte `stop`; else those at `places`. Only topics whose
    number has a 1 in `wanted` and store times in [begin_time, end_time) are taken, and `check_body` is for these alone.
    The columns from ROW_PREPARED_POSITION on are filled only `with_rest`. `scratch` has SCRATCH_ROWS rows.

    Returns how many were taken, the byte that it came to, how many records it looked at, and why it went no further.
    """
    if rows.shape[0] != ROW_WIDTH or scratch.shape[1] != RECORD_WIDTH or len(scratch) < SCRATCH_ROWS or size < 0:
        return 0, 0, 0, MISUSED
    if not 0 <= position <= LAST_POSITION - size:
        return 0, 0, 0, MISUSED
    record, taken, seen, at = row_at(scratch, 0), 0, 0, 0
    for index in range(_RECENT):
        scratch[1 + index, _TOPIC_SIZE] = -1
    while at < stop if is_chain else seen < len(places):
        if not is_chain:
            at = places[seen]
        if at < 0 or at > size:
            return taken, at, seen, OUTSIDE
        if taken == rows.shape[1]:
            return taken, at, seen, FULL
        reason = scan_one(data, size, at, position + at, False, False, record)
        if reason != DONE:
            return taken, at, seen, reason
        topic, topic_size = data + get(record, RECORD_TOPIC_AT), get(record, RECORD_TOPIC_SIZE)
        recent = row_at(scratch, 1 + topic_size % _RECENT)
        if get(recent, _TOPIC_SIZE) != topic_size or not is_same(topic, get(recent, _TOPIC_ADDRESS), topic_size):
            number = find_topic(topics, topics_size, topic, topic_size)
            if number < 0 or number >= len(wanted):
                return taken, at, seen, NEW_TOPIC
            put(recent, _TOPIC_ADDRESS, topic)
            put(recent, _TOPIC_SIZE, topic_size)
            put(recent, _TOPIC_NUMBER, number)
        number = get(recent, _TOPIC_NUMBER)
        if wanted[number] == 1 and begin_time <= get(record, RECORD_STORE_TIME) < end_time:
            if check_body and not _is_body_whole(data, at, record):
                return taken, at, seen, CHANGED
            _put_row(data, at, record, number, with_rest, rows, taken)
            taken += 1
        seen += 1
        at += get(record, RECORD_SIZE)
    return taken, at, seen, DONE
