"""The commit-log record: one message as it lies in the log. The layout is drawn in record_layout.py.

`encode_drafts` makes the records of a batch, `decode_record` gives all of a record, and `scan_record`
gives, faster, what queues and index need. These three are where a store spends its time, hence
their long bodies: a call costs Python as much as several fields.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Final

from embermq.errors import CorruptRecord, IllegalMessage
from embermq.format.host import HOST_V4_SIZE, HOST_V6_SIZE
from embermq.format.property_crc import (
    PROPERTY_CRC_SIZE,
    encode_property_crc,
    prepare_properties,
    verify_property_crc,
)
from embermq.format.record_layout import (
    BLANK_SIZE,
    BYTE,
    FRAME,
    HEADS,
    HOST_FLAGS_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MAX_PROPERTIES_SIZE,
    MAX_V1_TOPIC_SIZE,
    MIN_RECORD_SIZE,
    SCAN_HEADS,
    SHORT,
    Draft,
    DraftFields,
    Frame,
    Record,
    Scanned,
    record_size,
)
from embermq.model.flags import SysFlag

__all__ = [
    "BLANK_SIZE", "HEADS", "MAGIC_BLANK", "MAGIC_V1", "MAGIC_V2", "MAX_PROPERTIES_SIZE", "MAX_V1_TOPIC_SIZE",
    "MIN_RECORD_SIZE", "PROPERTY_CRC_SIZE", "Draft", "DraftFields", "Frame", "Record", "Scanned", "crc31",
    "decode_record", "draft_size", "encode_blank", "encode_draft", "encode_drafts", "encode_property_crc",
    "encode_record", "read_frame", "read_properties", "record_size", "scan_record", "verify_property_crc",
]  # fmt: skip

_CRC_MASK: Final = 0x7FFF_FFFF
_HOST_FLAGS: Final = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
_NO_HOST_FLAGS: Final = ~_HOST_FLAGS
_BORN_FLAGS: Final = {HOST_V4_SIZE: 0, HOST_V6_SIZE: SysFlag.BORN_HOST_V6}
_STORE_FLAGS: Final = {HOST_V4_SIZE: 0, HOST_V6_SIZE: SysFlag.STORE_HOST_V6}

# For encoding: host bits, size and pack of a head, by the sizes of the store host and of the born host.
_KINDS: Final = {
    store_size: {
        born_size: (flags, HEADS[flags >> 4].size, HEADS[flags >> 4].pack)
        for born_size, born_flag in _BORN_FLAGS.items()
        for flags in [born_flag | store_flag]
    }
    for store_size, store_flag in _STORE_FLAGS.items()
}

_SCAN: Final = SCAN_HEADS[0].unpack_from
_SCAN_SIZE: Final = SCAN_HEADS[0].size
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_TOPIC_ENDS: Final = {MAGIC_V1: 1 + 0x7F, MAGIC_V2: 2 + 0x7FFF}  # of the longest topics, with their sizes

# A named tuple is made in half the time this way.
_new_record: Final = partial(tuple.__new__, Record)
_new_scanned: Final = partial(tuple.__new__, Scanned)


def crc31(data: bytes | memoryview) -> int:
    """The checksum of bodies: CRC-32 without its highest bit, for it is kept in a signed field."""
    return zlib.crc32(data) & _CRC_MASK


def read_frame(data: memoryview | bytes, at: int) -> Frame:
    """Size and magic at byte `at` of `data`."""
    if at < 0 or len(data) - at < FRAME.size:
        raise CorruptRecord(at, f"{len(data) - at} bytes left, a record begins with {FRAME.size}")
    return Frame._make(FRAME.unpack_from(data, at))


def read_properties(data: memoryview) -> bytes:
    """The properties of the record that `data` is, without looking at the rest of it. Raises CorruptRecord."""
    if len(data) < MIN_RECORD_SIZE:
        raise CorruptRecord(0, f"a record of {len(data)} bytes, {MIN_RECORD_SIZE} are the least")
    _, magic = FRAME.unpack_from(data)
    body_at = HEADS[data[HOST_FLAGS_AT] >> 4 & 3].size
    topic_at = body_at + max(int.from_bytes(data[body_at - 4 : body_at], signed=True), 0)
    width = 2 if magic == MAGIC_V2 else 1
    size_at = topic_at + width + int.from_bytes(data[topic_at : topic_at + width])
    begin = size_at + SHORT.size
    end = begin + int.from_bytes(data[size_at:begin])
    if end > len(data):
        raise CorruptRecord(0, f"a record of {len(data)} bytes, whose properties end at {end}")
    return bytes(data[begin:end])


def encode_blank(size: int) -> bytes:
    """The 8 bytes that close a file of which `size` bytes are left."""
    return FRAME.pack(size, MAGIC_BLANK)


def draft_size(draft: Draft, store_host: bytes, *, with_property_crc: bool = False) -> int:
    """Bytes of the record that `draft` will become."""
    properties_size = len(draft.properties)
    if with_property_crc:
        properties_size = len(prepare_properties(draft.properties)) + PROPERTY_CRC_SIZE
    topic_size = len(draft.topic)
    hosts = _BORN_FLAGS[len(draft.born_host)] | _STORE_FLAGS[len(store_host)]
    return record_size(topic_size, len(draft.body), properties_size, hosts, topic_size > MAX_V1_TOPIC_SIZE)


def encode_record(record: Record) -> bytes:
    """The bytes of `record`, every field as it says. Raises IllegalMessage if one does not fit its place."""
    topic = record.topic.encode()
    try:
        head = HEADS[record.sys_flag >> 4 & 3].pack(*record[:14], len(record.body))
        topic_size = SHORT.pack(len(topic)) if record.v2 else BYTE.pack(len(topic))
        properties_size = SHORT.pack(len(record.properties))
    except struct.error as error:
        raise _unfit(error) from error
    return b"".join((head, record.body, topic_size, topic, properties_size, record.properties))


def encode_draft(
    draft: Draft,
    *,
    offset: int,
    position: int,
    store_time: int,
    store_host: bytes,
    with_property_crc: bool = False,
) -> bytes:
    """The record that `draft` becomes at its place. Raises IllegalMessage if no record can hold it."""
    if with_property_crc:
        places = (offset,), position, store_time, store_host
        parts, _ = encode_drafts((draft,), *places, with_property_crc=True)
        return b"".join(parts)
    # What encode_drafts does, without what it needs to do it many times.
    topic, queue, body, properties, flag, sys_flag, born, born_host, reconsume_times, prepared = draft
    try:
        host_flags, head_size, pack_head = _KINDS[len(store_host)][len(born_host)]
        magic, topic_size, topic_part = _encode_topic(topic)
        head = pack_head(
            head_size + len(body) + topic_size + 2 + len(properties), magic, zlib.crc32(body) & 0x7FFF_FFFF,
            queue, flag, offset, position, sys_flag & _NO_HOST_FLAGS | host_flags, born, born_host,
            store_time, store_host, reconsume_times, prepared, len(body),
        )  # fmt: skip
        return b"".join((head, body, topic_part, SHORT.pack(len(properties)), properties))
    except (struct.error, KeyError) as error:
        raise _unfit(error) from error


def encode_drafts(
    drafts: Iterable[DraftFields],
    offsets: Iterable[int],
    position: int,
    store_time: int,
    store_host: bytes,
    *,
    with_property_crc: bool = False,
) -> tuple[list[bytes], list[int]]:
    """The records of `drafts`, one after the other from `position` on.

    Returns their bytes in parts, to be joined into one write, and the size of each.
    Raises IllegalMessage if no record can hold one of them.
    """
    parts: list[bytes] = []
    sizes: list[int] = []
    encoded_topic: bytes | None = None  # batches are mostly for one topic, and from one host
    encoded_host: bytes | None = None
    magic = topic_size = host_flags = head_size = 0
    topic_part = bare_tail = b""
    pack_head: Callable[..., bytes] = HEADS[0].pack
    crc_size = PROPERTY_CRC_SIZE if with_property_crc else 0
    crc32, pack_short = zlib.crc32, SHORT.pack
    try:
        kinds = _KINDS[len(store_host)]
        for draft, offset in zip(drafts, offsets, strict=True):
            topic, queue, body, properties, flag, sys_flag, born, born_host, reconsume_times, prepared = draft
            if crc_size:
                properties = prepare_properties(properties)
            if topic != encoded_topic:
                encoded_topic, (magic, topic_size, topic_part) = topic, _encode_topic(topic)
                bare_tail = topic_part + pack_short(0)
            if born_host is not encoded_host:
                encoded_host, (host_flags, head_size, pack_head) = born_host, kinds[len(born_host)]
            body_size = len(body)
            properties_size = len(properties) + crc_size
            size = head_size + body_size + topic_size + 2 + properties_size
            head = pack_head(
                size, magic, crc32(body) & 0x7FFF_FFFF, queue, flag, offset, position,
                sys_flag & _NO_HOST_FLAGS | host_flags if sys_flag else host_flags, born, born_host,
                store_time, store_host, reconsume_times, prepared, body_size,
            )  # fmt: skip
            parts += head, body, topic_part + pack_short(properties_size) + properties if properties_size else bare_tail
            if crc_size:
                parts.append(encode_property_crc(_crc_of(parts[-3:])))
            sizes.append(size)
            position += size
    except (struct.error, KeyError) as error:
        raise _unfit(error) from error
    return parts, sizes


def decode_record(
    data: memoryview | bytes, position: int, *, check_body: bool = True, check_position: bool = True
) -> Record:
    """The record that `data`, cut from log `position`, begins with; more may follow it.

    Raises CorruptRecord for anything else, the end of a file included.
    """
    left = len(data)
    if left < MIN_RECORD_SIZE:
        raise CorruptRecord(position, f"{left} bytes left, a record has at least {MIN_RECORD_SIZE}")
    head = HEADS[data[HOST_FLAGS_AT] >> 4 & 3]
    try:
        *fields, body_size = head.unpack_from(data)
    except struct.error as error:
        raise CorruptRecord(position, f"{left} bytes left, its head has {head.size}") from error
    size, magic = fields[0], fields[1]
    if magic not in _MAGICS:
        raise CorruptRecord(position, f"unknown magic {magic:#010x}")
    if size > left or body_size < 0:
        raise CorruptRecord(position, f"{size} bytes announced, {left} left, {body_size} of body")
    body_end = head.size + body_size
    topic, properties = _split_tail(bytes(data[body_end:size]), magic, position)
    record = _new_record((*fields, bytes(data[head.size : body_end]), topic, properties))
    if check_position and record.position != position:
        raise CorruptRecord(position, f"it says that it lies at {record.position}")
    if check_body and crc31(record.body) != record.body_crc:
        raise CorruptRecord(position, "its body does not match its checksum")
    return record


def scan_record(data: memoryview, at: int, position: int, *, check_body: bool) -> Scanned | None:
    """What lies at byte `at` of `data`, which is log `position`; None where the records of a file end.

    Raises CorruptRecord for anything that is neither a whole record nor such an end.
    """
    try:
        size, magic, body_crc, queue, offset, own, sys_flag, store_time, prepared, body_size = _SCAN(data, at)
    except struct.error:
        _check_end(data, at, position)
        return None
    if magic != MAGIC_V1 and magic != MAGIC_V2:  # noqa: PLR1714  # twice as fast as a tuple
        _check_end(data, at, position)
        return None
    body_at = at + _SCAN_SIZE
    if sys_flag & _HOST_FLAGS:
        body_at, store_time, prepared, body_size = _scan_long_head(data, at, position, sys_flag)
    if own != position:
        raise CorruptRecord(position, f"it says that it lies at {own}")
    end = at + size
    if end > len(data) or body_size < 0:
        raise CorruptRecord(position, f"{size} bytes announced, {len(data) - at} left, {body_size} of body")
    tail_at = body_at + body_size
    tail = data[tail_at:end].tobytes()
    # The same as _split_tail, which would be a call more.
    try:
        if magic == MAGIC_V1:
            topic_at, topic_end = 1, tail[0] + 1
        else:
            topic_at, topic_end = 2, (tail[0] << 8 | tail[1]) + 2
        properties = tail[topic_end + 2 :]
        properties_size = tail[topic_end] << 8 | tail[topic_end + 1]
        if len(properties) != properties_size or properties_size > 0x7FFF or topic_end > _TOPIC_ENDS[magic]:
            raise CorruptRecord(position, f"topic and properties do not add up to {len(tail)} bytes")
        topic = tail[topic_at:topic_end].decode()
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptRecord(position, f"no topic in {len(tail)} bytes behind its body: {error}") from error
    if check_body and zlib.crc32(data[body_at:tail_at]) & 0x7FFF_FFFF != body_crc:
        raise CorruptRecord(position, "its body does not match its checksum")
    return _new_scanned((size, topic, queue, offset, position, sys_flag, store_time, properties, prepared))


@lru_cache(maxsize=1024)
def _encode_topic(topic: bytes) -> tuple[int, int, bytes]:
    """Magic, size and bytes that a topic calls for."""
    size = len(topic)
    if size > MAX_V1_TOPIC_SIZE:
        return MAGIC_V2, size + SHORT.size, SHORT.pack(size) + topic
    return MAGIC_V1, size + BYTE.size, BYTE.pack(size) + topic


def _unfit(error: Exception) -> IllegalMessage:
    if isinstance(error, KeyError):  # only hosts are looked up, by their size
        return IllegalMessage(f"a host of {error} bytes, {HOST_V4_SIZE} or {HOST_V6_SIZE} expected")
    return IllegalMessage(f"no record can hold this: {error}")


def _crc_of(parts: list[bytes]) -> int:
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return crc & _CRC_MASK


def _split_tail(tail: bytes, magic: int, position: int) -> tuple[str, bytes]:
    """Topic and properties: all that follows the body."""
    width = 1 if magic == MAGIC_V1 else 2
    topic_end = width + int.from_bytes(tail[:width], "big")
    begin = topic_end + SHORT.size
    properties = tail[begin:]
    properties_size = int.from_bytes(tail[topic_end:begin], "big", signed=True)
    if begin > len(tail) or len(properties) != properties_size or topic_end > _TOPIC_ENDS[magic]:
        raise CorruptRecord(position, f"topic and properties do not add up to {len(tail)} bytes")
    try:
        return tail[width:topic_end].decode(), properties
    except UnicodeDecodeError as error:
        raise CorruptRecord(position, f"its topic is not UTF-8: {error}") from error


def _scan_long_head(data: memoryview, at: int, position: int, sys_flag: int) -> tuple[int, int, int, int]:
    """Where the body begins, store time, prepared position and body size of a record with an IPv6 host."""
    head = SCAN_HEADS[sys_flag >> 4 & 3]
    try:
        *_, store_time, prepared, body_size = head.unpack_from(data, at)
    except struct.error as error:
        raise CorruptRecord(position, f"{len(data) - at} bytes left, its head has {head.size}") from error
    return at + head.size, store_time, prepared, body_size


def _check_end(data: memoryview, at: int, position: int) -> None:
    """Raise CorruptRecord unless the records of a file end at byte `at`."""
    left = len(data) - at
    if left < FRAME.size:
        return
    size, magic = FRAME.unpack_from(data, at)
    if magic in _MAGICS:
        raise CorruptRecord(position, f"{size} bytes announced, {left} left")
    if magic != MAGIC_BLANK and (size or magic):
        raise CorruptRecord(position, f"unknown magic {magic:#010x}")
