"""Where a scan goes on, where it ends, and what it does not take for a record."""

from __future__ import annotations

import struct

import pytest

from embermq.errors import CorruptRecord
from embermq.format.record import (
    MAGIC_V1,
    MAGIC_V2,
    Draft,
    Scanned,
    decode_record,
    encode_blank,
    encode_draft,
    encode_drafts,
    scan_record,
)

V4_HOST = bytes(8)
V6_HOST = bytes(20)


def a_record(*, position: int = 0, host: bytes = V4_HOST, topic: bytes = b"orders", body: bytes = b"body") -> bytes:
    draft = Draft(topic, 0, body, b"TAGS\x01eu\x02", born_host=host)
    return encode_draft(draft, offset=3, position=position, store_time=9, store_host=host)


def scan(data: bytes, *, position: int = 0, check_body: bool = True) -> Scanned | None:
    return scan_record(memoryview(data), 0, position, check_body=check_body)


KINDS = {
    "ipv4": a_record(),
    "ipv6": a_record(host=V6_HOST),
    "v2": a_record(topic=b"t" * 200),
    "v2-ipv6": a_record(topic=b"t" * 200, host=V6_HOST),
    "empty": a_record(body=b"", topic=b""),
}


@pytest.mark.parametrize("record", KINDS.values(), ids=KINDS)
def test_a_whole_record_is_scanned(record: bytes) -> None:
    scanned = scan(record)
    assert scanned is not None
    assert scanned.size == len(record)
    assert scanned.properties == b"TAGS\x01eu\x02"


def test_a_walk_meets_every_record_and_ends_at_the_blank() -> None:
    drafts = [Draft(b"orders", 0, bytes(size), b"") for size in range(50)]
    parts, sizes = encode_drafts(drafts, range(50), 1000, 0, V4_HOST)
    data = memoryview(b"".join([*parts, encode_blank(100), bytes(92)]))
    at, found = 0, []
    while (scanned := scan_record(data, at, 1000 + at, check_body=True)) is not None:
        found.append(scanned)
        at += scanned.size
    assert [scanned.size for scanned in found] == sizes
    assert [scanned.offset for scanned in found] == list(range(50))
    assert len(data) - at == 100


@pytest.mark.parametrize("left", range(8))
def test_less_than_a_frame_is_the_end(left: int) -> None:
    assert scan(b"\xff" * left) is None


@pytest.mark.parametrize("behind", [0, 1, 79, 80, 200])
def test_zeros_and_blanks_are_the_end(behind: int) -> None:
    assert scan(bytes(8 + behind)) is None
    assert scan(encode_blank(8 + behind) + bytes(behind)) is None


@pytest.mark.parametrize("behind", [0, 79, 80, 200])
@pytest.mark.parametrize(("size", "magic"), [(100, 0), (0, 1), (100, 0xDAA320A8), (0, MAGIC_V1), (0, MAGIC_V2)])
def test_a_frame_of_nothing_known_is_corrupt(size: int, magic: int, behind: int) -> None:
    with pytest.raises(CorruptRecord) as caught:
        scan(struct.pack(">II", size, magic) + bytes(behind), position=4096)
    assert caught.value.position == 4096


@pytest.mark.parametrize("record", KINDS.values(), ids=KINDS)
def test_a_record_cut_anywhere_behind_its_frame_is_corrupt(record: bytes) -> None:
    for kept in range(8, len(record)):
        with pytest.raises(CorruptRecord):
            scan(record[:kept], check_body=False)


@pytest.mark.parametrize("record", KINDS.values(), ids=KINDS)
def test_a_size_that_is_one_off_is_corrupt(record: bytes) -> None:
    for size in (len(record) - 1, len(record) + 1):
        broken = struct.pack(">I", size) + record[4:] + bytes(10)
        with pytest.raises(CorruptRecord):
            scan(broken)
        with pytest.raises(CorruptRecord):
            decode_record(broken, 0)


def test_a_record_of_another_position_is_corrupt() -> None:
    assert scan(a_record(position=512), position=512) is not None
    with pytest.raises(CorruptRecord, match="lies at 512"):
        scan(a_record(position=512), position=513)


def test_a_damaged_body_is_found_only_if_asked_for() -> None:
    record = bytearray(a_record())
    record[90] ^= 1
    assert scan(bytes(record), check_body=False) is not None
    with pytest.raises(CorruptRecord, match="checksum"):
        scan(bytes(record))


@pytest.mark.parametrize("size", [-1, -4, -88, -100, -(2**31)])
def test_a_negative_body_is_corrupt(size: int) -> None:
    record = bytearray(a_record())
    struct.pack_into(">i", record, 84, size)
    with pytest.raises(CorruptRecord):
        scan(bytes(record), check_body=False)
    with pytest.raises(CorruptRecord):
        decode_record(bytes(record), 0, check_body=False)


def test_a_negative_body_is_corrupt_even_if_the_head_can_be_read_as_topic_and_properties() -> None:
    record = bytearray(100)
    struct.pack_into(">II", record, 0, len(record), MAGIC_V1)
    struct.pack_into(">i", record, 84, -12)  # so that what follows the "body" begins at 76
    struct.pack_into(">bh", record, 76, 0, len(record) - 79)  # a topic of no bytes, all the rest properties
    with pytest.raises(CorruptRecord, match="-12 of body"):
        scan(bytes(record))
    with pytest.raises(CorruptRecord, match="-12 of body"):
        decode_record(bytes(record), 0)


def test_a_topic_of_128_bytes_does_not_fit_the_first_version() -> None:
    """Java would take its size for a negative number."""
    record = bytearray(a_record(topic=b"t" * 128))
    assert record[92:94] == b"\x00\x80"
    del record[92]
    struct.pack_into(">II", record, 0, len(record), MAGIC_V1)
    with pytest.raises(CorruptRecord):
        scan(bytes(record))
    with pytest.raises(CorruptRecord):
        decode_record(bytes(record), 0)


def test_properties_over_their_limit_are_corrupt_even_if_they_are_there() -> None:
    record = bytearray(a_record()[:-8] + b"\x80\x00" + b"x" * 32768)
    record[-32768 - 2 - 2 : -32768 - 2] = b""
    struct.pack_into(">I", record, 0, len(record))
    with pytest.raises(CorruptRecord):
        scan(bytes(record))
    with pytest.raises(CorruptRecord):
        decode_record(bytes(record), 0)
