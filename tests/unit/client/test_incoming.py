"""Messages as they come: RocketMQ's own answers to pulls, packed bodies, retries, damage."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from embermq.client.incoming import decode_messages, unique_key_of
from embermq.errors import CorruptRecord
from embermq.format.batch import BatchElement, encode_batch
from embermq.format.record import Draft, encode_draft
from embermq.model.flags import SysFlag
from embermq.model.properties import format_properties
from tests.unit.client.wire import iter_frames

HOST = b"\x7f\0\0\1\0\0\x2a\x9f"


def a_record(body: bytes = b"hello", *, topic: str = "orders", position: int = 4096, **fields: Any) -> bytes:
    properties = format_properties(fields.pop("properties", {}))
    draft = Draft(topic.encode(), 2, body, properties, **fields)
    return encode_draft(draft, offset=7, position=position, store_time=1_700_000_000_123, store_host=HOST)


def test_what_rocketmqs_broker_answered_is_what_was_sent() -> None:
    answers = [frame for frame in iter_frames("push-consumer", code=11) if not frame.is_request and frame.code == 0]
    messages = [message for answer in answers for message in decode_messages(answer.body)]
    assert len(messages) == sum(int(answer.fields["nextBeginOffset"]) for answer in answers[:2]) + len(answers) - 2
    sent = {
        frame.fields["i"].partition("UNIQ_KEY\x01")[2].partition("\x02")[0]: frame.body
        for frame in iter_frames("producer-send", code=310)
        if frame.is_request and frame.fields["f"] == "0"
    }
    shared = [message for message in messages if unique_key_of(message) in sent]
    assert shared
    assert all(message.body == sent[unique_key_of(message)] for message in shared)


def test_several_records_follow_each_other() -> None:
    messages = decode_messages(a_record(b"one", position=0) + a_record(b"two", position=500))
    assert [(message.body, message.position) for message in messages] == [(b"one", 0), (b"two", 500)]
    assert messages[1].message_id == "7F00000100002A9F00000000000001F4"


def test_a_retry_has_the_topic_that_it_was_sent_to() -> None:
    properties = {"RETRY_TOPIC": "orders", "UNIQ_KEY": "U1", "KEYS": "a b", "TAGS": "eu"}
    (message,) = decode_messages(a_record(topic="%RETRY%billing", properties=properties, reconsume_times=3))
    assert (message.topic, message.reconsume_times, message.keys, message.tags) == ("orders", 3, ("a", "b"), "eu")
    assert unique_key_of(message) == "U1"


def test_a_batch_that_is_kept_as_one_record_is_taken_apart() -> None:
    body = encode_batch([BatchElement(0, b"%d" % n, format_properties({"KEYS": f"k{n}"})) for n in range(3)])
    flags = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
    record = a_record(body, sys_flag=flags, properties={"INNER_BASE": "40", "INNER_NUM": "3"})
    assert [(m.offset, m.body, m.keys) for m in decode_messages(record)] == [
        (40, b"0", ("k0",)),
        (41, b"1", ("k1",)),
        (42, b"2", ("k2",)),
    ]


@pytest.mark.parametrize("kept", [0, 3, 50, 90])
def test_a_torn_answer_is_reported(kept: int) -> None:
    whole = a_record()
    with pytest.raises(CorruptRecord):
        decode_messages(whole + whole[:kept] if kept else whole[:-1])


def test_a_changed_body_is_reported() -> None:
    record = bytearray(a_record(b"hello"))
    record[record.index(b"hello")] ^= 1
    with pytest.raises(CorruptRecord, match="checksum"):
        decode_messages(bytes(record))


@pytest.mark.parametrize("flags", [SysFlag.COMPRESSED, SysFlag.COMPRESSED | SysFlag.ZLIB])
def test_zlib_is_unpacked_whoever_says_so(flags: int) -> None:
    (message,) = decode_messages(a_record(zlib.compress(b"x" * 9000), sys_flag=flags))
    assert message.body == b"x" * 9000
