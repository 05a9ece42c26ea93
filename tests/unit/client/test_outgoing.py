"""Messages on their way out: the same fields and properties as those of RocketMQ's own client."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from embermq import Message
from embermq.client.outgoing import (
    COMPRESSED_FROM,
    MAX_BODY_SIZE,
    choose_queue,
    delay_level,
    packed_body,
    prepare,
    send_fields,
)
from embermq.errors import BodyTooLarge, IllegalMessage, IllegalProperty, IllegalTopic
from embermq.format.batch import BatchElement, encode_batch, iter_batch
from embermq.format.packed_body import unpack_body
from embermq.format.wire_json import BrokerQueue
from embermq.model.properties import parse_properties
from tests.unit.client.wire import iter_frames

QUEUES = [BrokerQueue(broker, "orders", number) for number in range(4) for broker in ("broker-a", "broker-b")]


def sends(code: int) -> list[tuple[dict[str, str], bytes]]:
    return [(frame.fields, frame.body) for frame in iter_frames("producer-send", code=code) if frame.is_request]


@pytest.mark.parametrize("number", range(5))
def test_a_request_has_the_fields_of_rocketmqs_own(number: int) -> None:
    fields, body = sends(310)[number]
    properties = parse_properties(fields["i"].encode())
    message = Message(fields["b"], body, properties.get("TAGS"), properties.get("KEYS", "").split())
    delay = timedelta(seconds=5) if properties.get("DELAY") == "2" else None
    ours = prepare(message, properties["UNIQ_KEY"], delay=delay)
    assert parse_properties(ours.properties) == properties
    target = BrokerQueue(fields["n"], fields["b"], int(fields["e"]))
    made = send_fields(
        target,
        group=fields["a"],
        properties=fields["i"],
        sys_flag=0,
        flag=0,
        born_ms=int(fields["g"]),
        is_batch=False,
    )
    assert made == fields


def test_a_batch_has_the_bytes_of_rocketmqs_own() -> None:
    ((fields, body),) = sends(320)
    assert fields["m"] == "true"
    elements = list(iter_batch(body))
    ours = [prepare(_message_of(element), _unique_key(element)) for element in elements]
    assert [parse_properties(each.properties) for each in ours] == [
        parse_properties(element.properties) for element in elements
    ]
    assert encode_batch(elements) == body


def _message_of(element: BatchElement) -> Message:
    properties = parse_properties(element.properties)
    return Message("WireTopic", element.body, properties.get("TAGS"), properties.get("KEYS", "").split())


def _unique_key(element: BatchElement) -> str:
    return parse_properties(element.properties)["UNIQ_KEY"]


def test_a_large_body_is_packed_as_rocketmqs_client_packs_it() -> None:
    (fields, packed), *_ = [each for each in sends(310) if each[0]["f"] != "0"]
    plain = unpack_body(packed, int(fields["f"])) * 20  # that producer packed smaller ones, too
    body, sys_flag = packed_body(prepare(Message("WireTopic", plain), "U"))
    assert str(sys_flag) == fields["f"]
    assert unpack_body(body, sys_flag) == plain


@pytest.mark.parametrize(("size", "is_packed"), [(COMPRESSED_FROM - 1, False), (COMPRESSED_FROM, True)])
def test_packing_begins_at_a_size(size: int, is_packed: bool) -> None:
    body, sys_flag = packed_body(prepare(Message("orders", b"a" * size), "U"))
    assert (sys_flag != 0) == is_packed
    assert (len(body) < size) == is_packed


def test_what_packing_makes_no_smaller_travels_as_it_is() -> None:
    import random

    noise = random.Random(1).randbytes(8192)
    assert packed_body(prepare(Message("orders", noise), "U")) == (noise, 0)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("or ders", b"x"), IllegalTopic),
        (Message("orders", b""), IllegalMessage),
        (Message("orders", bytes(MAX_BODY_SIZE + 1)), BodyTooLarge),
        (Message("orders", "text"), IllegalMessage),  # type: ignore[arg-type]
        (Message("orders", b"x", keys="o-1"), IllegalMessage),
        (Message("orders", b"x", keys=["o 1"]), IllegalProperty),
        (Message("orders", b"x", keys=[""]), IllegalProperty),
        (Message("orders", b"x", tags="a\x01b"), IllegalProperty),
        (Message("orders", b"x", properties={"UNIQ_KEY": "mine"}), IllegalProperty),
        (Message("orders", b"x", properties={"a": ""}), IllegalProperty),
    ],
)
def test_what_no_broker_would_take_is_refused_at_once(message: Message, error: type[Exception]) -> None:
    with pytest.raises(error):
        prepare(message, "U")


def test_a_body_of_the_largest_size_is_fine() -> None:
    assert len(prepare(Message("orders", bytes(MAX_BODY_SIZE)), "U").body) == MAX_BODY_SIZE


@pytest.mark.parametrize(("delay", "level"), [({"seconds": 1}, 1), ({"minutes": 1}, 5), ({"hours": 2}, 18)])
def test_a_delay_is_one_of_the_levels(delay: dict[str, Any], level: int) -> None:
    assert delay_level(timedelta(**delay)) == level


@pytest.mark.parametrize("delay", [timedelta(seconds=2), timedelta(seconds=1, microseconds=1), timedelta(days=1)])
def test_any_other_delay_is_refused_with_those_that_there_are(delay: timedelta) -> None:
    with pytest.raises(IllegalMessage, match="0:00:30"):
        delay_level(delay)


def test_delayed_messages_travel_alone() -> None:
    message = Message("orders", b"x")
    assert not prepare(message, "U").must_be_alone
    assert not prepare(message, "U", delay=timedelta(0)).must_be_alone
    assert prepare(message, "U", delay=timedelta(seconds=1)).must_be_alone
    assert prepare(Message("orders", b"x", properties={"TIMER_DELAY_SEC": "7"}), "U").must_be_alone


def test_queues_take_turns() -> None:
    message = prepare(Message("orders", b"x"), "U")
    assert Counter(choose_queue(message, QUEUES, turn) for turn in range(16)) == dict.fromkeys(QUEUES, 2)


def test_a_sharding_key_has_its_queue_whatever_the_order_and_the_turn() -> None:
    message = prepare(Message("orders", b"x"), "U", sharding_key="customer-7")
    assert len({choose_queue(message, QUEUES[::step], turn) for step in (1, -1) for turn in range(9)}) == 1
    assert message.properties.count(b"__SHARDINGKEY\x01customer-7\x02") == 1


def test_a_fixed_queue_is_kept_and_a_missing_one_refused() -> None:
    message = prepare(Message("orders", b"x", queue=3), "U")
    assert {choose_queue(message, QUEUES, turn).queue for turn in range(4)} == {3}
    with pytest.raises(IllegalMessage, match="no queue 9"):
        choose_queue(prepare(Message("orders", b"x", queue=9), "U"), QUEUES, 0)
