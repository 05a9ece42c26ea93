"""System flags of a record, and the permissions of a topic."""

from __future__ import annotations

from enum import IntFlag


class SysFlag:
    """Bits of a record's system flag. Plain numbers, because every record is tested for some of them."""

    COMPRESSED = 0x1
    MULTI_TAG = 0x2
    PREPARED = 0x4
    COMMITTED = 0x8
    ROLLED_BACK = 0xC
    TRANSACTION_MASK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40  # the body is a client batch that consumers take apart
    INNER_BATCH = 0x80
    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300
    COMPRESSION_MASK = 0x700  # 0 beside COMPRESSED: zlib, from old clients


class Permission(IntFlag):
    """What may be done with a topic."""

    INHERIT = 1  # topics made on the fly may copy this one
    WRITE = 2
    READ = 4


NOT_QUEUED = SysFlag.PREPARED  # the bit that prepared and rolled-back records share: they are in the log alone
