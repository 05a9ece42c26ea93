from __future__ import annotations

import hashlib
import zlib

import pytest

from embermq.format.host import encode_host
from embermq.format.record import Draft, Record, decode_record, encode_draft
from embermq.format.record_facts import format_host, record_facts
from embermq.model.flags import SysFlag
from embermq.model.message import Host


def a_record(body: bytes, *, sys_flag: int = 0) -> Record:
    draft = Draft(b"orders", 2, body, b"TAGS\x01eu\x02", sys_flag=sys_flag)
    broker = encode_host(Host("192.168.0.10", 10911))
    return decode_record(encode_draft(draft, offset=5, position=4096, store_time=7, store_host=broker), 4096)


def test_facts_have_rocketmqs_names() -> None:
    assert record_facts(a_record(b"abc")) == {
        "physicalOffset": 4096,
        "storedPhysicalOffset": 4096,
        "totalSize": 108,
        "magic": "DAA320A7",
        "bodyCRC": 0x352441C2,
        "queueId": 2,
        "flag": 0,
        "queueOffset": 5,
        "sysFlag": 0,
        "bornTimestamp": 0,
        "bornHost": "127.0.0.1:0",
        "storeTimestamp": 7,
        "storeHost": "192.168.0.10:10911",
        "reconsumeTimes": 0,
        "preparedTransactionOffset": 0,
        "topic": "orders",
        "properties": {"TAGS": "eu"},
        "bodySize": 3,
        "bodyHex": "616263",
        "msgId": "C0A8000A00002A9F0000000000001000",
    }


def test_a_body_is_shown_up_to_256_bytes_and_by_its_digest_above() -> None:
    assert record_facts(a_record(bytes(256)))["bodyHex"] == "00" * 256
    facts = record_facts(a_record(bytes(257)))
    assert "bodyHex" not in facts
    assert facts["bodySha256"] == hashlib.sha256(bytes(257)).hexdigest()


@pytest.mark.parametrize("kind", [0, SysFlag.ZLIB])
@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 1_000_000])
def test_a_body_that_zlib_packed_is_told_as_it_was_before(kind: int, size: int) -> None:
    plain = bytes(size)
    facts = record_facts(a_record(zlib.compress(plain), sys_flag=SysFlag.COMPRESSED | kind))
    assert facts["plainBodySize"] == size
    assert facts["plainBodySha256"] == hashlib.sha256(plain).hexdigest()


@pytest.mark.parametrize("kind", [SysFlag.LZ4, SysFlag.ZSTD])
def test_a_body_packed_otherwise_is_told_as_it_is(kind: int) -> None:
    assert "plainBodySize" not in record_facts(a_record(b"packed", sys_flag=SysFlag.COMPRESSED | kind))


@pytest.mark.parametrize("body", [b"", b"no zlib", zlib.compress(bytes(1000))[:-5]])
def test_a_packed_body_that_is_broken_is_told_as_it_is(body: bytes) -> None:
    assert "plainBodySize" not in record_facts(a_record(body, sys_flag=SysFlag.COMPRESSED))


def test_an_ipv6_address_has_all_its_numbers() -> None:
    assert format_host(encode_host(Host("::1", 10911))) == "[0:0:0:0:0:0:0:1]:10911"
    assert format_host(encode_host(Host("2001:db8::a0", 1))) == "[2001:db8:0:0:0:0:0:a0]:1"


def test_a_record_found_elsewhere_says_both_places() -> None:
    facts = record_facts(a_record(b"abc"), position=0)
    assert (facts["physicalOffset"], facts["storedPhysicalOffset"]) == (0, 4096)
