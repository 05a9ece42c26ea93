"""A record as people and other programs read it: the fields of `ember store dump`, in RocketMQ's names."""

from __future__ import annotations

import hashlib
import zlib
from typing import Final

from embermq.format.host import HOST_V4_SIZE, decode_host
from embermq.format.message_id import encode_message_id
from embermq.format.record import Record
from embermq.model.flags import SysFlag

_SHOWN_BODY_SIZE: Final = 256  # a larger body is shown by its digest
_STEP: Final = 65536


def record_facts(record: Record, position: int | None = None) -> dict[str, object]:
    """The fields of `record` by name. `position` is where it was found, if that is not where it says."""
    return {
        "physicalOffset": record.position if position is None else position,
        "storedPhysicalOffset": record.position,
        "totalSize": record.size,
        "magic": f"{record.magic:08X}",
        "bodyCRC": record.body_crc,
        "queueId": record.queue,
        "flag": record.flag,
        "queueOffset": record.offset,
        "sysFlag": record.sys_flag,
        "bornTimestamp": record.born_time,
        "bornHost": format_host(record.born_host),
        "storeTimestamp": record.store_time,
        "storeHost": format_host(record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_position,
        "topic": record.topic,
        "properties": record.property_map(),
        "bodySize": len(record.body),
        **_body_facts(record.body),
        **_plain_body_facts(record),
        "msgId": encode_message_id(record.store_host, record.position),
    }


def format_host(host: bytes) -> str:
    """A host as Java prints it: an IPv6 address has all its eight numbers."""
    if len(host) == HOST_V4_SIZE:
        return str(decode_host(host))
    numbers = memoryview(host)[:16]
    address = ":".join(f"{numbers[at] << 8 | numbers[at + 1]:x}" for at in range(0, 16, 2))
    return f"[{address}]:{decode_host(host).port}"


def _body_facts(body: bytes) -> dict[str, object]:
    if len(body) <= _SHOWN_BODY_SIZE:
        return {"bodyHex": body.hex()}
    return {"bodySha256": hashlib.sha256(body).hexdigest()}


def _plain_body_facts(record: Record) -> dict[str, object]:
    """Size and digest of a compressed body as it was before; nothing if zlib cannot tell."""
    if not record.sys_flag & SysFlag.COMPRESSED:
        return {}
    if record.sys_flag & SysFlag.COMPRESSION_MASK not in (0, SysFlag.ZLIB):
        return {}
    # In steps, because a small body may unpack to a huge one.
    unpacker, digest, size = zlib.decompressobj(), hashlib.sha256(), 0
    packed = record.body
    try:
        while not unpacker.eof:
            plain = unpacker.decompress(packed, _STEP)
            packed = unpacker.unconsumed_tail
            if not (plain or packed or unpacker.eof):
                return {}  # it ends too early
            digest.update(plain)
            size += len(plain)
    except zlib.error:
        return {}
    return {"plainBodySize": size, "plainBodySha256": digest.hexdigest()}
