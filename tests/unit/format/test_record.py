"""Records: the worked examples of the format, round trips, and the edges of every size."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord, IllegalMessage
from embermq.format.host import encode_host
from embermq.format.record import (
    HEADS,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    Draft,
    Record,
    crc31,
    decode_record,
    draft_size,
    encode_blank,
    encode_draft,
    encode_drafts,
    encode_record,
    read_frame,
    record_size,
    scan_record,
)
from embermq.model.message import Host

CLIENT = encode_host(Host("127.0.0.1", 50001))
BROKER = encode_host(Host("192.168.0.10", 10911))
V6 = encode_host(Host("2001:db8::1", 50002))

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
# Topics around the edge between the two versions are frequent.
topics = st.text(max_size=20) | st.integers(120, 135).map("t".__mul__) | st.integers(120, 135).map("é".__mul__)

drafts = st.builds(
    Draft,
    topic=topics.map(str.encode),
    queue=i32,
    body=st.binary(max_size=300),
    properties=st.binary(max_size=300),
    flag=i32,
    sys_flag=i32,
    born_time=i64,
    born_host=hosts,
    reconsume_times=i32,
    prepared_position=i64,
)


def a_draft(**changes: object) -> Draft:
    return Draft(topic=b"TopicTest", queue=0, body=b"abc", properties=b"TAGS\x01TagA\x02")._replace(**changes)


def encode_at_zero(draft: Draft, *, with_property_crc: bool = False) -> bytes:
    return encode_draft(
        draft, offset=0, position=0, store_time=1, store_host=BROKER, with_property_crc=with_property_crc
    )


EXAMPLE_A = bytes.fromhex(
    "000000b1daa320a769c865ed0000000100000000000000000000000500000000"
    "00000000000000000000018bcfe568007f0000010000c3510000018bcfe5687b"
    "c0a8000a00002a9f0000000000000000000000000000000e48656c6c6f20526f"
    "636b65744d5109546f70696354657374003f4b455953016b31206b3202544147"
    "53015461674102554e49515f4b45590137463030303030313030303130303030"
    "3030303030303030303030303030304102"
)
EXAMPLE_B = bytes.fromhex(
    "00000086daa320a7770659160000000000000000000000000000000700000000"
    "000000b1000000300000018bcfe56be820010db8000000000000000000000001"
    "0000c3520000018bcfe56bed20010db800000000000000000000000200002a9f"
    "00000000000000000000000000000002763607546f7069635636000a54414753"
    "015461674202"
)
EXAMPLE_D = bytes.fromhex(
    "00000085daa320a7352441c20000000000000000000000000000000000000000"
    "00000000000000000000018bcfe568000a000001000004d20000018bcfe56801"
    "0a00000200002a9f0000000000000000000000000000000361626309546f7069"
    "6354657374001e544147530154616741025f5f43524333322301323130343631"
    "3431333002"
)
EXAMPLE_F = bytes.fromhex(
    "00000070daa320a730cb2b760000000200000000000000000000000a00000000"
    "00001000000000000000018bcfe56fd07f0000010000c3510000018bcfe56fd1"
    "c0a8000a00002a9f00000000000000000000000000000002623009546f706963"
    "54657374000a54414753015461674102"
    "00000070daa320a747cc1be00000000200000000000000000000000b00000000"
    "00001070000000000000018bcfe56fd07f0000010000c3510000018bcfe56fd1"
    "c0a8000a00002a9f00000000000000000000000000000002623109546f706963"
    "54657374000a54414753015461674202"
)


def test_a_message_with_tags_and_keys_has_the_bytes_of_the_format() -> None:
    draft = Draft(
        topic=b"TopicTest",
        queue=1,
        body=b"Hello RocketMQ",
        properties=b"KEYS\x01k1 k2\x02TAGS\x01TagA\x02UNIQ_KEY\x017F00000100010000000000000000000A\x02",
        born_time=1700000000000,
        born_host=CLIENT,
    )
    assert len(EXAMPLE_A) == 177
    assert encode_draft(draft, offset=5, position=0, store_time=1700000000123, store_host=BROKER) == EXAMPLE_A


def test_a_message_between_ipv6_hosts_has_the_bytes_of_the_format() -> None:
    draft = Draft(
        topic=b"TopicV6",
        queue=0,
        body=b"v6",
        properties=b"TAGS\x01TagB\x02",
        born_time=1700000001000,
        born_host=V6,
    )
    store_host = encode_host(Host("2001:db8::2", 10911))
    encoded = encode_draft(draft, offset=7, position=177, store_time=1700000001005, store_host=store_host)
    assert encoded == EXAMPLE_B
    assert decode_record(encoded, 177).sys_flag == 0x30


def test_a_blank_has_the_bytes_of_the_format() -> None:
    assert encode_blank(713).hex() == "000002c9cbd43194"
    assert read_frame(encode_blank(713), 0) == (713, MAGIC_BLANK)


def test_a_message_with_a_property_crc_has_the_bytes_of_the_format() -> None:
    draft = Draft(
        topic=b"TopicTest",
        queue=0,
        body=b"abc",
        properties=b"TAGS\x01TagA\x02",
        born_time=1700000000000,
        born_host=encode_host(Host("10.0.0.1", 1234)),
    )
    store_host = encode_host(Host("10.0.0.2", 10911))
    encoded = encode_draft(
        draft, offset=0, position=0, store_time=1700000000001, store_host=store_host, with_property_crc=True
    )
    assert encoded == EXAMPLE_D


def test_a_long_topic_makes_a_record_of_the_second_version() -> None:
    topic = b"%RETRY%" + b"g" * 121
    encoded = encode_at_zero(a_draft(topic=topic, body=b"x", properties=b""))
    assert len(encoded) == 221
    assert encoded[:8].hex() == "000000dddaa320ab"
    assert encoded[84:91].hex() == "00000001780080"
    assert encoded[91:] == topic + b"\0\0"


def test_a_batch_of_two_has_the_bytes_of_the_format() -> None:
    both = [
        a_draft(queue=2, body=body, properties=tags, born_time=1700000002000, born_host=CLIENT)
        for body, tags in [(b"b0", b"TAGS\x01TagA\x02"), (b"b1", b"TAGS\x01TagB\x02")]
    ]
    parts, sizes = encode_drafts(both, [10, 11], 4096, 1700000002001, BROKER)
    assert b"".join(parts) == EXAMPLE_F
    assert sizes == [112, 112]


def test_the_size_that_rocketmq_pins_in_its_own_tests() -> None:
    properties = b"KEYS\x011234567890123\x02TAGS\x01TAG1\x02"
    assert len(encode_at_zero(a_draft(topic=b"FooBar", body=bytes(32), properties=properties))) == 158


def test_the_checksum_of_a_body_has_no_sign() -> None:
    assert crc31(b"a") == 0x68B7BE43
    assert crc31(b"") == 0


@given(drafts, i64, st.integers(0, 2**62), i64, hosts)
def test_a_record_comes_back_field_for_field(
    draft: Draft, offset: int, position: int, store_time: int, store_host: bytes
) -> None:
    encoded = encode_draft(draft, offset=offset, position=position, store_time=store_time, store_host=store_host)
    record = decode_record(encoded, position)
    expected_flag = draft.sys_flag & ~0x30
    expected_flag |= 0x10 if len(draft.born_host) == 20 else 0
    expected_flag |= 0x20 if len(store_host) == 20 else 0
    assert record == Record(
        size=len(encoded),
        magic=MAGIC_V2 if len(draft.topic) > 127 else MAGIC_V1,
        body_crc=zlib.crc32(draft.body) & 0x7FFFFFFF,
        queue=draft.queue,
        flag=draft.flag,
        offset=offset,
        position=position,
        sys_flag=expected_flag,
        born_time=draft.born_time,
        born_host=draft.born_host,
        store_time=store_time,
        store_host=store_host,
        reconsume_times=draft.reconsume_times,
        prepared_position=draft.prepared_position,
        body=draft.body,
        topic=draft.topic.decode(),
        properties=draft.properties,
    )
    assert encode_record(record) == encoded
    assert draft_size(draft, store_host) == len(encoded)


@given(drafts, st.integers(0, 2**62), hosts, st.binary(max_size=20))
def test_a_scan_gives_the_same_fields_as_a_decoding(
    draft: Draft, position: int, store_host: bytes, around: bytes
) -> None:
    encoded = encode_draft(draft, offset=1, position=position, store_time=2, store_host=store_host)
    data = memoryview(around + encoded + around)
    record = decode_record(encoded, position)
    scanned = scan_record(data, len(around), position, check_body=True)
    assert scanned is not None
    assert scanned._asdict() == {name: getattr(record, name) for name in scanned._fields}


@given(st.lists(drafts, max_size=5), st.integers(0, 2**60), hosts, st.booleans())
def test_many_drafts_are_encoded_as_each_alone(
    many: list[Draft], position: int, store_host: bytes, with_crc: bool
) -> None:
    offsets = list(range(7, 7 + len(many)))
    parts, sizes = encode_drafts(many, offsets, position, 2, store_host, with_property_crc=with_crc)
    alone = []
    for draft, offset in zip(many, offsets, strict=True):
        alone.append(
            encode_draft(
                draft,
                offset=offset,
                position=position + sum(map(len, alone)),
                store_time=2,
                store_host=store_host,
                with_property_crc=with_crc,
            )
        )
    assert b"".join(parts) == b"".join(alone)
    assert sizes == list(map(len, alone))
    assert sizes == [draft_size(draft, store_host, with_property_crc=with_crc) for draft in many]


def test_a_record_may_be_followed_by_anything() -> None:
    encoded = encode_at_zero(a_draft())
    assert decode_record(encoded + b"anything", 0) == decode_record(memoryview(encoded), 0)


@pytest.mark.parametrize(("size", "magic"), [(0, MAGIC_V1), (127, MAGIC_V1), (128, MAGIC_V2), (32767, MAGIC_V2)])
def test_the_version_follows_the_size_of_the_topic(size: int, magic: int) -> None:
    encoded = encode_at_zero(a_draft(topic=b"t" * size))
    record = decode_record(encoded, 0)
    assert record.magic == magic
    assert record.v2 == (magic == MAGIC_V2)
    assert record.topic == "t" * size
    assert len(encoded) == record_size(size, 3, 10, 0, record.v2)


def test_no_record_holds_a_topic_that_is_too_long() -> None:
    with pytest.raises(IllegalMessage):
        encode_at_zero(a_draft(topic=b"t" * 32768))


def test_properties_may_have_their_limit_and_not_one_more() -> None:
    longest = bytes(32767)
    assert decode_record(encode_at_zero(a_draft(properties=longest)), 0).properties == longest
    with pytest.raises(IllegalMessage):
        encode_at_zero(a_draft(properties=longest + b"x"))


def test_the_property_crc_counts_towards_the_limit_of_the_properties() -> None:
    longest = b"x" * (32767 - 20 - 1) + b"\x02"
    record = decode_record(encode_at_zero(a_draft(properties=longest), with_property_crc=True), 0)
    assert len(record.properties) == 32767
    with pytest.raises(IllegalMessage):
        encode_at_zero(a_draft(properties=b"x" + longest), with_property_crc=True)


@pytest.mark.parametrize("field", ["queue", "flag", "sys_flag", "reconsume_times"])
def test_a_number_of_32_bits_may_have_its_limit_and_not_one_more(field: str) -> None:
    record = decode_record(encode_at_zero(a_draft(**{field: 2**31 - 1})), 0)
    assert getattr(record, field) in (2**31 - 1, (2**31 - 1) & ~0x30)
    with pytest.raises(IllegalMessage, match="no record can hold this"):
        encode_at_zero(a_draft(**{field: 2**31}))


@pytest.mark.parametrize("size", [0, 7, 9, 19, 21])
def test_a_host_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(IllegalMessage, match=f"a host of {size} bytes"):
        encode_at_zero(a_draft(born_host=bytes(size)))
    with pytest.raises(IllegalMessage, match=f"a host of {size} bytes"):
        encode_drafts([a_draft()], [0], 0, 0, bytes(size))


def test_a_record_that_does_not_fit_its_fields_is_refused() -> None:
    record = decode_record(EXAMPLE_A, 0)
    for broken in (
        record._replace(topic="t" * 128),
        record._replace(properties=bytes(32768)),
        record._replace(queue=2**31),
    ):
        with pytest.raises(IllegalMessage):
            encode_record(broken)


def test_a_record_is_encoded_with_the_checksum_that_it_says() -> None:
    record = decode_record(EXAMPLE_A, 0)._replace(body_crc=7)
    encoded = encode_record(record)
    assert decode_record(encoded, 0, check_body=False) == record
    with pytest.raises(CorruptRecord, match="checksum"):
        decode_record(encoded, 0)


def test_a_record_at_another_place_is_found_out_unless_nobody_asks() -> None:
    with pytest.raises(CorruptRecord, match="lies at 0") as caught:
        decode_record(EXAMPLE_A, 4096)
    assert caught.value.position == 4096
    assert decode_record(EXAMPLE_A, 4096, check_position=False).position == 0


@pytest.mark.parametrize("example", [EXAMPLE_A, EXAMPLE_B], ids=["ipv4", "ipv6"])
def test_a_record_cut_anywhere_is_reported_where_it_begins(example: bytes) -> None:
    position = decode_record(example, 0, check_position=False).position
    for kept in range(len(example)):
        with pytest.raises(CorruptRecord) as caught:
            decode_record(memoryview(example)[:kept], position)
        assert caught.value.position == position


def test_properties_are_given_by_name() -> None:
    assert decode_record(EXAMPLE_B, 177).property_map() == {"TAGS": "TagB"}


def test_properties_that_are_not_text_are_reported_where_the_record_begins() -> None:
    record = decode_record(encode_at_zero(a_draft(properties=b"a\x01\xff\x02")), 0)
    with pytest.raises(CorruptRecord, match="not UTF-8"):
        record.property_map()


def test_a_topic_that_is_not_text_is_corrupt() -> None:
    encoded = encode_at_zero(a_draft(topic=b"\xff"))
    with pytest.raises(CorruptRecord, match="not UTF-8"):
        decode_record(encoded, 0)
    with pytest.raises(CorruptRecord, match="utf-8"):
        scan_record(memoryview(encoded), 0, 0, check_body=False)


def test_the_sizes_of_the_four_heads_follow_the_hosts() -> None:
    assert [head.size for head in HEADS] == [88, 100, 100, 112]


def test_a_frame_needs_its_eight_bytes() -> None:
    assert read_frame(EXAMPLE_A, 0) == (177, MAGIC_V1)
    assert read_frame(EXAMPLE_A[:8], 0).size == 177
    with pytest.raises(CorruptRecord):
        read_frame(EXAMPLE_A[:7], 0)
    with pytest.raises(CorruptRecord):
        read_frame(EXAMPLE_A, -1)
