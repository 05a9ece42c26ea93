"""Every decoder, given any bytes at all, returns or raises CorruptRecord, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format import tables
from embermq.format.batch import BatchElement, encode_batch, iter_batch
from embermq.format.batch_entry import BatchEntry, decode_batch_entries, decode_batch_entry, encode_batch_entry
from embermq.format.checkpoint import Checkpoint, Progress, decode_checkpoint, decode_progress, encode_page
from embermq.format.extended_entry import ExtendedEntry, decode_extended_entry, encode_extended_entry
from embermq.format.host import decode_host
from embermq.format.index_entry import IndexHeader, decode_index_entry, decode_index_header, encode_index_header
from embermq.format.lenient_json import parse_lenient
from embermq.format.message_id import decode_message_id, decode_unique_id
from embermq.format.property_crc import verify_property_crc
from embermq.format.queue_entry import QueueEntry, decode_queue_entries, decode_queue_entry, encode_queue_entry
from embermq.format.record import Draft, decode_record, encode_blank, encode_draft, read_frame, scan_record
from embermq.format.record_facts import record_facts
from embermq.model.group import GroupConfig
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion

V4, V6 = bytes(8), bytes(20)


def a_record(topic: bytes, host: bytes, *, with_property_crc: bool = False) -> bytes:
    draft = Draft(topic, 1, b"body", b"KEYS\x01k1 k2\x02", sys_flag=1, born_host=host)
    return encode_draft(draft, offset=1, position=0, store_time=1, store_host=host, with_property_crc=with_property_crc)


def decode_all_of_a_record(data: bytes) -> None:
    record_facts(decode_record(data, 0, check_body=False, check_position=False))


def scan(data: bytes) -> None:
    scan_record(memoryview(data), 0, 0, check_body=False)


def scan_behind_something(data: bytes) -> None:
    scan_record(memoryview(b"xyz" + data), 3, 0, check_body=True)


RECORDS = [
    a_record(b"t", V4),
    a_record(b"t", V6),
    a_record(b"t" * 130, V4),
    a_record(b"t", V4, with_property_crc=True),
    encode_blank(99),
]
TOPICS = tables.encode_topics(tables.TopicTable(DataVersion(1, 2, 3), {"t": TopicConfig("t", attributes={"a": "b"})}))
GROUPS = tables.encode_groups(tables.GroupTable(DataVersion(), {"g": GroupConfig("g")}, {"g": {"t": 1}}))
OFFSETS = tables.encode_offsets(tables.OffsetTable(DataVersion(), {("t", "g"): {0: 1, 1: 2}}))
REFERENCE = b"{'a':{0:1},'b':{'$ref':'$.a'}}"

DECODERS: dict[str, tuple[Callable[[bytes], object], list[bytes]]] = {
    "record": (decode_all_of_a_record, RECORDS),
    "record checked": (lambda data: decode_record(data, 0), RECORDS),
    "scan": (scan, RECORDS),
    "scan behind": (scan_behind_something, RECORDS),
    "frame": (lambda data: read_frame(data, 0), RECORDS),
    "property crc": (verify_property_crc, RECORDS),
    "batch": (lambda data: list(iter_batch(data)), [encode_batch([BatchElement(1, b"body", b"a\x01b\x02")] * 2)]),
    "queue entry": (decode_queue_entry, [encode_queue_entry(QueueEntry(1, 2, 3))]),
    "queue entries": (decode_queue_entries, [encode_queue_entry(QueueEntry(1, 2, 3)) * 2]),
    "batch entry": (decode_batch_entry, [encode_batch_entry(BatchEntry(1, 2, 3, 4, 5, 6))]),
    "batch entries": (decode_batch_entries, [encode_batch_entry(BatchEntry(1, 2, 3, 4, 5, 6)) * 2]),
    "extended entry": (decode_extended_entry, [encode_extended_entry(ExtendedEntry(1, 2, b"bits"))]),
    "index header": (decode_index_header, [encode_index_header(IndexHeader())]),
    "index entry": (decode_index_entry, [bytes(20)]),
    "host": (decode_host, [V4, V6]),
    "checkpoint": (decode_checkpoint, [bytes(40)]),
    "progress": (decode_progress, [encode_page(Checkpoint(), Progress(1, 2, 3, 4, 5, 0, 0, 0))[:1120]]),
    "message id": (lambda data: decode_message_id(data.decode("latin-1")), [b"0A" * 16, b"0A" * 28]),
    "unique id": (lambda data: decode_unique_id(data.decode("latin-1")), [b"0A" * 16, b"0A" * 28]),
    "json": (lambda data: parse_lenient(data.decode("latin-1")), [TOPICS, OFFSETS, REFERENCE]),
    "topics": (tables.decode_topics, [TOPICS]),
    "groups": (tables.decode_groups, [GROUPS]),
    "offsets": (tables.decode_offsets, [OFFSETS]),
    "delays": (tables.decode_delays, [b'{"offsetTable":{1:2,2:3}}']),
    "table": (tables.decode_table, [TOPICS, REFERENCE]),
}
CASES = pytest.mark.parametrize(("decode", "samples"), DECODERS.values(), ids=DECODERS)


@CASES
@given(data=st.binary(max_size=200))
def test_any_bytes(decode: Callable[[bytes], object], samples: list[bytes], data: bytes) -> None:
    with suppress(CorruptRecord):
        decode(data)


@CASES
def test_valid_bytes_cut_anywhere(decode: Callable[[bytes], object], samples: list[bytes]) -> None:
    for sample in samples:
        for kept in range(len(sample)):
            with suppress(CorruptRecord):
                decode(sample[:kept])


@CASES
def test_valid_bytes_with_one_of_them_changed(decode: Callable[[bytes], object], samples: list[bytes]) -> None:
    for sample in samples:
        for at in range(len(sample)):
            for change in (0x01, 0x80, 0xFF, sample[at]):
                broken = bytearray(sample)
                broken[at] ^= change
                with suppress(CorruptRecord):
                    decode(bytes(broken))


@CASES
@given(data=st.data())
def test_valid_bytes_with_some_of_them_replaced(
    decode: Callable[[bytes], object], samples: list[bytes], data: st.DataObject
) -> None:
    sample = data.draw(st.sampled_from(samples))
    begin = data.draw(st.integers(0, len(sample)))
    end = data.draw(st.integers(begin, len(sample)))
    with suppress(CorruptRecord):
        decode(sample[:begin] + data.draw(st.binary(max_size=20)) + sample[end:])


@pytest.mark.parametrize("name", ["record", "scan", "batch", "topics", "groups", "offsets"])
def test_the_valid_bytes_are_valid(name: str) -> None:
    decode, samples = DECODERS[name]
    decode(samples[0])


@given(st.binary(max_size=200))
def test_scan_and_decoding_agree_on_what_a_record_is(data: bytes) -> None:
    for sample in RECORDS[:4]:
        broken = bytearray(sample)
        broken[: len(data)] = data[: len(sample)]
        assert _is_record(lambda broken=broken: decode_record(bytes(broken), 0)) == _is_record(
            lambda broken=broken: scan_record(memoryview(bytes(broken)), 0, 0, check_body=True)
        )


@pytest.mark.parametrize("sample", RECORDS[:4], ids=["ipv4", "ipv6", "v2", "crc"])
def test_scan_and_decoding_agree_on_every_flipped_bit(sample: bytes) -> None:
    for at in range(len(sample)):
        for bit in range(8):
            broken = bytearray(sample)
            broken[at] ^= 1 << bit
            data = bytes(broken)
            decoded = _is_record(lambda data=data: decode_record(data, 0))
            scanned = _is_record(lambda data=data: scan_record(memoryview(data), 0, 0, check_body=True))
            assert decoded == scanned, f"byte {at}, bit {bit}"


def _is_record(decode: Callable[[], object]) -> bool:
    try:
        return decode() is not None
    except CorruptRecord:
        return False
