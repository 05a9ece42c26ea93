"""Drafts, records and logs for the tests of kernels, and what plain code makes of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from embermq.errors import CorruptRecord, IllegalMessage
from embermq.format.record import Draft, encode_blank, encode_drafts, scan_record
from embermq.kernels.byte_table import ByteTable
from embermq.kernels.columns import (
    CHANGED,
    CUT_OFF,
    DONE,
    DRAFT_WIDTH,
    ENDED,
    FULL,
    MISPLACED,
    NO_MAGIC,
    NOT_TEXT,
    OUTSIDE,
    RECORD_WIDTH,
    UNEVEN,
    UNFIT,
)
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.records import encode_records

STORE_TIME = 1_700_000_000_123
HOSTS = (b"\x7f\0\0\1\0\0\x2a\x9f", bytes(range(16)) + b"\0\0\x2a\xa0")
NUMBERS = (0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**63 - 1, -(2**63), 7, 100)
TOPICS = (b"orders", b"", b"t" * 127, b"v" * 128, b"w" * 300, "bestellungen-ü-€-😀".encode())
SUFFIXES = (b"", b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01ember\x02")

# A sweep of so many random cases by default, and of a million with --all.
CASES = [pytest.param(3_000), pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]

_REASONS = {
    "unknown magic": NO_MAGIC,
    "it says that it lies": MISPLACED,
    "bytes announced": CUT_OFF,
    "its head has": CUT_OFF,
    "do not add up": UNEVEN,
    "its body does not match": CHANGED,
    "index out of range": UNEVEN,
    "can't decode": NOT_TEXT,
}


def table(*shape: int) -> Table:
    return np.zeros(shape, np.int64)


class Sources:
    """Drafts with their parts in one buffer, as encode_records takes them."""

    def __init__(self, *, store_host: bytes = HOSTS[0], suffix: bytes = b"") -> None:
        self.data = bytearray()
        self.rows: list[list[int]] = []
        self.topics = ByteTable(*TOPICS)
        self.hosts = ByteTable(*HOSTS)
        self.store_host = store_host
        self.suffix = suffix

    def add(self, draft: Draft, offset: int) -> None:
        body_at = len(self.data)
        self.data += draft.body + draft.properties
        topic, host = self.topics.number_of(draft.topic), self.hosts.number_of(draft.born_host)
        parts = [body_at, len(draft.body), body_at + len(draft.body), len(draft.properties)]
        numbers = [draft.queue, draft.flag, draft.sys_flag, draft.born_time, host, offset]
        self.rows.append([*parts, topic, *numbers, draft.reconsume_times, draft.prepared_position])

    def encode(self, target: bytearray, *, position: int = 0) -> tuple[int, int, int, Table]:
        """What the kernel writes into `target`, and its table of records."""
        drafts = np.array(self.rows, np.int64).reshape(-1, DRAFT_WIDTH)
        records = table(len(drafts), RECORD_WIDTH)
        source, suffix = bytes(self.data), self.suffix
        store_host = self.hosts.number_of(self.store_host)
        count, used, reason = encode_records(
            drafts, address_of(source), len(source), address_of(source), len(source), self.topics.rows,
            self.hosts.rows, store_host, address_of(suffix), len(suffix), STORE_TIME, position,
            address_of(target), len(target), records,
        )  # fmt: skip
        return count, used, reason, records[:count]

    def encode_plainly(self, size: int, *, position: int = 0) -> tuple[bytes, list[int], int]:
        """The bytes and sizes of the records that fit into `size`, and why there are no more."""
        parts: list[bytes] = []
        sizes: list[int] = []
        for row in self.rows:
            draft = self._draft(row)
            if draft is None:
                return b"".join(parts), sizes, OUTSIDE
            if self.suffix and draft.properties and draft.properties[-1] != 2:
                return b"".join(parts), sizes, UNFIT
            try:
                record, _ = encode_drafts(
                    (draft._replace(properties=draft.properties + self.suffix),),
                    (row[10],), position + sum(sizes), STORE_TIME, self.store_host,
                )  # fmt: skip
            except IllegalMessage:
                return b"".join(parts), sizes, UNFIT
            if sum(map(len, record)) > size - sum(sizes):
                return b"".join(parts), sizes, FULL
            parts += record
            sizes.append(sum(map(len, record)))
        return b"".join(parts), sizes, DONE

    def _draft(self, row: Sequence[int]) -> Draft | None:
        body_at, body_size, properties_at, properties_size, topic, queue, flag, sys_flag, born, host, _, *rest = row
        topics, hosts = list(self.topics), list(self.hosts)
        whole = len(self.data)
        inside = 0 <= body_size <= whole and 0 <= body_at <= whole - body_size
        inside = inside and 0 <= properties_size <= whole and 0 <= properties_at <= whole - properties_size
        if not inside or not 0 <= topic < len(topics) or not 0 <= host < len(hosts):
            return None
        body = bytes(self.data[body_at : body_at + body_size])
        properties = bytes(self.data[properties_at : properties_at + properties_size])
        return Draft(topics[topic], queue, body, properties, flag, sys_flag, born, hosts[host], *rest)


def random_draft(random: Random, **fields: Any) -> Draft:
    values: dict[str, Any] = {
        "topic": random.choice(TOPICS),
        "queue": random.randrange(8),
        "body": random.randbytes(random.choice((0, 1, 15, 16, 63, 64, 65, 100, 127, 128, 200, random.randrange(600)))),
        "properties": random_properties(random),
        "flag": random.choice((0, random.randrange(-(2**31), 2**31))),
        "sys_flag": random.choice((0, random.randrange(-(2**31), 2**31))),
        "born_time": random.choice((STORE_TIME, random.randrange(-(2**63), 2**63))),
        "born_host": random.choice(HOSTS),
        "reconsume_times": random.choice((0, random.randrange(-(2**31), 2**31))),
        "prepared_position": random.choice((0, random.randrange(-(2**63), 2**63))),
    }
    return Draft(**values | fields)


_NAMES = (b"TAGS", b"KEYS", b"UNIQ_KEY", b"WAIT", b"TAGSX", b"XKEYS", b"UNIQ_KEYS", b"UNIQ", b"KEY", b"", b"A")
_VALUES = (
    b"", b"TagA", b"a", b" ", b"k1 k2  k3 ", b"7F0000010B5818B4AAC2000000000001", "größe €".encode(),
    "😀 x".encode(), b"a\x01b", b"0123456", b"01234567", b"012345678", b"true",
)  # fmt: skip


def random_properties(random: Random, *, names: Sequence[bytes] = _NAMES) -> bytes:
    """Properties as senders write them, and some that nobody should."""
    pieces = [
        random.choice(names) + random.choice((b"\x01", b"\x01", b"\x01", b"")) + random.choice(_VALUES) + b"\x02"
        for _ in range(random.randrange(6))
    ]
    data = b"".join(pieces)
    return data[:-1] if data and random.random() < 0.1 else data


def a_log(
    drafts: Sequence[Draft], *, position: int = 0, store_host: bytes = HOSTS[0], offsets: Sequence[int] | None = None
) -> bytes:
    parts, _ = encode_drafts(drafts, offsets or range(len(drafts)), position, STORE_TIME, store_host)
    return b"".join(parts)


def damaged(random: Random, log: bytes) -> bytes:
    """A copy of `log` with some bytes changed, cut off, moved or lost."""
    data = bytearray(log)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(data)) if data else 0
        match random.randrange(7):
            case 0 if data:
                data[at] = random.randrange(256)
            case 1 if data:
                data[at] ^= 1 << random.randrange(8)
            case 2:
                del data[at:]
            case 3:
                data[at : at + random.randrange(20)] = b""
            case 4:
                data[at : at + 4] = struct.pack(">i", random.choice((0, -1, 1, 91, 88, 2**31 - 1, -(2**31))))
            case 5:
                data[at:at] = random.choice((encode_blank(100), bytes(random.randrange(200)), random.randbytes(30)))
            case 6 if len(data) > 87:  # of the first head: sys flag, body size and magic
                data[random.choice((36, 39, 84, 87, 4, 7))] = random.randrange(256)
    return bytes(data)


def shortened(record: bytes, count: int) -> bytes:
    """A record without its last `count` bytes, and with a size that says so."""
    size = len(record) - count
    return struct.pack(">I", size) + record[4:size]


def scan_plainly(data: bytes, position: int, *, check_body: bool) -> tuple[list[Any], int, int]:
    """What scan_record finds in `data`, where it stops, and why."""
    found: list[Any] = []
    at, view = 0, memoryview(data)
    while True:
        try:
            scanned = scan_record(view, at, position + at, check_body=check_body)
        except CorruptRecord as error:
            return found, at, reason_of(error)
        if scanned is None:
            return found, at, ENDED
        found.append(scanned)
        at += scanned.size


def reason_of(error: CorruptRecord) -> int:
    return next(reason for text, reason in _REASONS.items() if text in str(error))


def run_cases(count: int, seed: int, case: Callable[[Random], int]) -> int:
    """Run random cases until they have looked at `count` things; a failure names the seed of its case."""
    done = number = 0
    while done < count:
        try:
            done += case(Random(seed * 1_000_003 + number))
        except Exception as error:
            error.add_note(f"case {number} of seed {seed}")
            raise
        number += 1
    return done
