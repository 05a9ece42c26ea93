"""Commit-log records, many at a time, from drafts straight into log memory.

The layout is drawn in format/record_layout.py, and the bytes are those of format.record.encode_drafts. The other way
is in record_scan.py.
"""

from __future__ import annotations

from typing import Final

from embermq.format.host import HOST_V4_SIZE, HOST_V6_SIZE
from embermq.format.record_layout import (
    HEADS,
    MAGIC_V1,
    MAGIC_V2,
    MAX_PROPERTIES_SIZE,
    MAX_V1_TOPIC_SIZE,
)
from embermq.kernels.columns import (
    BYTES_ADDRESS,
    BYTES_SIZE,
    BYTES_WIDTH,
    DONE,
    DRAFT_BODY_AT,
    DRAFT_BODY_SIZE,
    DRAFT_BORN_HOST,
    DRAFT_BORN_TIME,
    DRAFT_FLAG,
    DRAFT_OFFSET,
    DRAFT_PREPARED_POSITION,
    DRAFT_PROPERTIES_AT,
    DRAFT_PROPERTIES_SIZE,
    DRAFT_QUEUE,
    DRAFT_RECONSUME_TIMES,
    DRAFT_SYS_FLAG,
    DRAFT_TOPIC,
    DRAFT_WIDTH,
    FULL,
    MISUSED,
    OUTSIDE,
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
    UNFIT,
)
from embermq.kernels.compiling import Table, inlined, kernel, part, variable
from embermq.kernels.crc import crc32_copying
from embermq.kernels.memory import (
    copy,
    fence,
    fits,
    get,
    load_i32,
    load_i64,
    load_u8,
    put,
    row_at,
    store_8,
    store_16,
    store_32,
    store_64,
)
from embermq.model.flags import SysFlag

_BORN_V6: Final = SysFlag.BORN_HOST_V6
_STORE_V6: Final = SysFlag.STORE_HOST_V6
_HOST_FLAGS: Final = _BORN_V6 | _STORE_V6
_HEAD_SIZE: Final = HEADS[0].size  # with two hosts of 8 bytes
_LONGER: Final = HOST_V6_SIZE - HOST_V4_SIZE  # bytes that a host of IPv6 has more
_CRC_MASK: Final = 0x7FFF_FFFF
_I32: Final = 2**31
_LAST: Final = 2**63 - 1
_MAX_V2_TOPIC_SIZE: Final = 0x7FFF
_VALUE_END: Final = 2
_DRAFT_SIZE: Final = DRAFT_WIDTH * 8  # bytes of a row
_RECORD_SIZE: Final = RECORD_WIDTH * 8
_BYTES_SIZE: Final = BYTES_WIDTH * 8


@part
def _is_i32(value: int) -> bool:
    return -_I32 <= value < _I32


@part
def _is_host(host: int) -> bool:
    """Whether a row of hosts is one."""
    size = get(host, BYTES_SIZE)
    return size in (HOST_V4_SIZE, HOST_V6_SIZE)


@part
def _check_draft(draft: int, source_size: int, texts: int, texts_size: int, topic: int, suffix_size: int) -> int:
    """Why a draft for this topic cannot become a record; DONE if it can."""
    body_size = get(draft, DRAFT_BODY_SIZE)
    properties_at, properties_size = get(draft, DRAFT_PROPERTIES_AT), get(draft, DRAFT_PROPERTIES_SIZE)
    if not fits(get(draft, DRAFT_BODY_AT), body_size, source_size):
        return OUTSIDE
    if not fits(properties_at, properties_size, texts_size):
        return OUTSIDE
    if not (
        _is_i32(body_size)
        and properties_size <= MAX_PROPERTIES_SIZE - suffix_size
        and 0 <= get(topic, BYTES_SIZE) <= _MAX_V2_TOPIC_SIZE
        and _is_i32(get(draft, DRAFT_QUEUE))
        and _is_i32(get(draft, DRAFT_FLAG))
        and _is_i32(get(draft, DRAFT_SYS_FLAG))
        and _is_i32(get(draft, DRAFT_RECONSUME_TIMES))
    ):
        return UNFIT
    # The suffix would become a part of the last value, were this not ended.
    if suffix_size and properties_size and load_u8(texts + properties_at + properties_size - 1) != _VALUE_END:
        return UNFIT
    return DONE


@part
def _place(draft: int, record: int, topic: int, born_host: int, store_host: int, suffix_size: int, begin: int) -> int:
    """Say in `record`, which begins at `begin`, where the parts of `draft` go; its size."""
    host_flags, body_at = 0, begin + _HEAD_SIZE
    if get(born_host, BYTES_SIZE) == HOST_V6_SIZE:
        host_flags, body_at = host_flags | _BORN_V6, body_at + _LONGER
    if get(store_host, BYTES_SIZE) == HOST_V6_SIZE:
        host_flags, body_at = host_flags | _STORE_V6, body_at + _LONGER
    body_size, topic_size = get(draft, DRAFT_BODY_SIZE), get(topic, BYTES_SIZE)
    topic_at = body_at + body_size + (2 if topic_size > MAX_V1_TOPIC_SIZE else 1)
    properties_at = topic_at + topic_size + 2
    properties_size = get(draft, DRAFT_PROPERTIES_SIZE) + suffix_size
    size = properties_at + properties_size - begin
    put(record, RECORD_SIZE, size)
    put(record, RECORD_TOPIC_AT, topic_at)
    put(record, RECORD_TOPIC_SIZE, topic_size)
    put(record, RECORD_QUEUE, get(draft, DRAFT_QUEUE))
    put(record, RECORD_OFFSET, get(draft, DRAFT_OFFSET))
    put(record, RECORD_SYS_FLAG, get(draft, DRAFT_SYS_FLAG) & ~_HOST_FLAGS | host_flags)
    put(record, RECORD_BODY_AT, body_at)
    put(record, RECORD_BODY_SIZE, body_size)
    put(record, RECORD_PROPERTIES_AT, properties_at)
    put(record, RECORD_PROPERTIES_SIZE, properties_size)
    put(record, RECORD_PREPARED_POSITION, get(draft, DRAFT_PREPARED_POSITION))
    return size


@part
def _write_host(to: int, host: int) -> int:
    """Write a host and return where it ends."""
    address, size = get(host, BYTES_ADDRESS), get(host, BYTES_SIZE)
    store_64(to, load_i64(address))
    if size == HOST_V6_SIZE:
        store_64(to + 8, load_i64(address + 8))
        store_32(to + 16, load_i32(address + 16))
    return to + size


@part
def _write_head(draft: int, record: int, born_host: int, store_host: int, to: int) -> None:
    """Write all that comes before the body; size, magic and checksum aside."""
    store_32(to + 12, get(draft, DRAFT_QUEUE))
    store_32(to + 16, get(draft, DRAFT_FLAG))
    store_64(to + 20, get(draft, DRAFT_OFFSET))
    store_64(to + 28, get(record, RECORD_POSITION))
    store_32(to + 36, get(record, RECORD_SYS_FLAG))
    store_64(to + 40, get(draft, DRAFT_BORN_TIME))
    at = _write_host(to + 48, born_host)
    store_64(at, get(record, RECORD_STORE_TIME))
    at = _write_host(at + 8, store_host)
    store_32(at, get(draft, DRAFT_RECONSUME_TIMES))
    store_64(at + 4, get(draft, DRAFT_PREPARED_POSITION))
    store_32(at + 12, get(record, RECORD_BODY_SIZE))


@part
def _write_frame(record: int, to: int) -> None:
    """Write size and magic, in one piece."""
    magic = MAGIC_V2 if get(record, RECORD_TOPIC_SIZE) > MAX_V1_TOPIC_SIZE else MAGIC_V1
    store_64(to, get(record, RECORD_SIZE) << 32 | magic & 0xFFFF_FFFF)


@part
def _write_parts(
    draft: int, record: int, source: int, texts: int, topic: int, suffix: int, suffix_size: int, target: int, to: int
) -> None:
    """Write body, with its checksum, topic and properties."""
    body_at, body_size = target + get(record, RECORD_BODY_AT), get(record, RECORD_BODY_SIZE)
    store_32(to + 8, crc32_copying(body_at, source + get(draft, DRAFT_BODY_AT), body_size) & _CRC_MASK)
    topic_at, topic_size = target + get(record, RECORD_TOPIC_AT), get(record, RECORD_TOPIC_SIZE)
    if topic_size > MAX_V1_TOPIC_SIZE:
        store_16(topic_at - 2, topic_size)
    else:
        store_8(topic_at - 1, topic_size)
    copy(topic_at, get(topic, BYTES_ADDRESS), topic_size)
    properties_at, own_size = target + get(record, RECORD_PROPERTIES_AT), get(draft, DRAFT_PROPERTIES_SIZE)
    store_16(properties_at - 2, get(record, RECORD_PROPERTIES_SIZE))
    if own_size:
        copy(properties_at, texts + get(draft, DRAFT_PROPERTIES_AT), own_size)
    if suffix_size:
        copy(properties_at + own_size, suffix, suffix_size)


@inlined
def _check_arguments(
    drafts: Table, sizes: int, topics: Table, hosts: Table, store_host: int, suffix_size: int, records: Table
) -> bool:
    return (
        drafts.shape[1] == DRAFT_WIDTH
        and records.shape[1] == RECORD_WIDTH
        and topics.shape[1] == BYTES_WIDTH
        and hosts.shape[1] == BYTES_WIDTH
        and records.shape[0] >= drafts.shape[0]
        and sizes >= 0
        and 0 <= suffix_size <= MAX_PROPERTIES_SIZE
        and 0 <= store_host < hosts.shape[0]
        and _is_host(row_at(hosts, store_host))
    )


@kernel(
    "UniTuple(int64, 3)(int64[:, ::1], int64, int64, int64, int64, int64[:, ::1], int64[:, ::1], int64, int64, int64,"
    " int64, int64, int64, int64, int64[:, ::1])",
)
def encode_records(
    drafts: Table,
    source: int,
    source_size: int,
    texts: int,
    texts_size: int,
    topics: Table,
    hosts: Table,
    store_host: int,
    suffix: int,
    suffix_size: int,
    store_time: int,
    position: int,
    target: int,
    target_size: int,
    records: Table,
) -> tuple[int, int, int]:
    """Write the records of `drafts` one after the other to the memory at `target`, which is log `position`.

    The drafts' bodies lie in `source`, their properties in `texts`; `topics` and `hosts` are rows of ByteTables, and
    `store_host` the number of a host. The properties of every record end with the suffix. Returns how many records
    were written, how many bytes they take, and why it went no further; `records` has a row for each.

    Size and magic of the first record are written last: see log/commit_log.py.
    """
    sizes = min(source_size, texts_size, target_size)
    if not _check_arguments(drafts, sizes, topics, hosts, store_host, suffix_size, records):
        return 0, 0, MISUSED
    if not 0 <= position <= _LAST - target_size:
        return 0, 0, MISUSED
    draft, record, own_host = row_at(drafts, 0), row_at(records, 0), row_at(hosts, store_host)
    first_topic, topic_count, first_host, host_count = row_at(topics, 0), len(topics), row_at(hosts, 0), len(hosts)
    count, used, number, reason = len(drafts), variable(0), variable(0), variable(DONE)
    while number < count:
        topic_number, host_number = get(draft, DRAFT_TOPIC), get(draft, DRAFT_BORN_HOST)
        if not (0 <= topic_number < topic_count and 0 <= host_number < host_count):
            reason = OUTSIDE
            break
        topic, born_host = first_topic + topic_number * _BYTES_SIZE, first_host + host_number * _BYTES_SIZE
        if not _is_host(born_host):
            reason = OUTSIDE
            break
        reason = _check_draft(draft, source_size, texts, texts_size, topic, suffix_size)
        if reason != DONE:
            break
        size = _place(draft, record, topic, born_host, own_host, suffix_size, used)
        if size > target_size - used:
            reason = FULL
            break
        put(record, RECORD_POSITION, position + used)
        put(record, RECORD_STORE_TIME, store_time)
        to = target + used
        if number > 0:
            _write_frame(record, to)
        _write_head(draft, record, born_host, own_host, to)
        _write_parts(draft, record, source, texts, topic, suffix, suffix_size, target, to)
        used += size
        number += 1
        draft, record = draft + _DRAFT_SIZE, record + _RECORD_SIZE
    if number > 0:
        fence()
        _write_frame(row_at(records, 0), target)
    return number, used, reason
