"""RocketMQ's checkpoints and acks: understood, and written again to the byte."""

from __future__ import annotations

from collections import Counter

from embermq.format.pop_records import (
    ack_key,
    checkpoint_properties,
    decode_ack,
    decode_checkpoint,
    encode_ack,
    encode_checkpoint,
    parked_properties,
)
from embermq.format.record import Record
from embermq.model.pop import Checkpoint, origin_of, retry_topic_of, revive_topic_of
from embermq.model.properties import FIRST_POP_TIME, REAL_QUEUE, TAGS, TIMER_DELIVER_MS
from embermq.model.topic import TIMER_TOPIC
from embermq.store.reader import StoreReader
from tests.conftest import Golden

REVIVE_TOPIC = revive_topic_of("DefaultCluster")
RETRY_TOPIC = retry_topic_of("PopTopic", "GID_pop")


def records(golden: Golden, *topics: str) -> list[Record]:
    with StoreReader(golden.store("pop")) as reader:
        return [record for record in reader.iter_records() if record.topic in topics]


def test_every_checkpoint_and_ack_is_written_again_to_the_byte(golden: Golden) -> None:
    kinds: Counter[str] = Counter()
    for record in records(golden, TIMER_TOPIC, REVIVE_TOPIC):
        tag = record.property_map()[TAGS]
        kinds[tag] += 1
        if tag == "ck":
            assert encode_checkpoint(decode_checkpoint(record.body)) == record.body
        else:
            assert encode_ack(decode_ack(record.body, broker="nobody")) == record.body
    assert kinds == {"ck": 26, "ack": 48}


def test_records_that_wait_have_the_properties_that_rocketmq_gives_them(golden: Golden) -> None:
    waiting = records(golden, TIMER_TOPIC)
    checkpoints: dict[object, Checkpoint] = {}
    for record in waiting:
        properties = record.property_map()
        if properties[TAGS] == "ck":
            checkpoint = decode_checkpoint(record.body)
            checkpoints[checkpoint.delivery] = checkpoint
            key, deliver_ms = checkpoint_properties(checkpoint)
        else:
            ack = decode_ack(record.body, broker="nobody")
            key, deliver_ms = ack_key(ack), checkpoints[ack.delivery].revive_time
        assert deliver_ms == int(properties[TIMER_DELIVER_MS])
        queue = int(properties[REAL_QUEUE])
        made = parked_properties(REVIVE_TOPIC, queue, tag=properties[TAGS], key=key, deliver_ms=deliver_ms)
        assert made == record.properties
    assert len(waiting) == 37


def test_the_retry_topic_of_a_group_and_topic_leads_back_to_the_topic(golden: Golden) -> None:
    revived = records(golden, RETRY_TOPIC)
    assert len(revived) == 16
    assert {record.reconsume_times for record in revived} == {1}
    assert all(FIRST_POP_TIME in record.property_map() for record in revived)
    assert origin_of(RETRY_TOPIC, "GID_pop") == "PopTopic"
