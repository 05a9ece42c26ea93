"""Checkpoints and acks as messages of the revive topic.

    ck      {"bm":0,"bn":"broker-a","c":"g","d":[0,1],"it":60000,"n":2,"pt":…,"q":1,"reviveTime":…,"ro":0,"so":7,…}
    ack     {"ao":8,"bn":"broker-a","c":"g","pt":…,"q":1,"so":7,"t":"T"}
    bAck    {"ao":-1,"aol":[7,8],"bn":"broker-a","c":"g","pt":…,"q":1,"so":7,"t":"T"}

`d` has each message's offset behind `so`. Each is put for a time: a checkpoint for a second before its messages
are due, an ack for when they are. Until then it waits in the timer's topic, with the properties of a parked message.
"""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import Final

from embermq.errors import CorruptRecord
from embermq.format.json_fields import Fields, parse_fields, read_integer
from embermq.model.pop import MOST_MESSAGES, Ack, Checkpoint, Delivery

CHECKPOINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
AHEAD_MS: Final = 1000  # so much before its messages are due a checkpoint arrives
TIMER_STEP_MS: Final = 1000

_LONG_NAMES: Final = {
    "ao": "ackOffset", "aol": "ackOffsetList", "so": "startOffset", "c": "consumerGroup", "t": "topic",
    "q": "queueId", "pt": "popTime", "bn": "brokerName",
}  # fmt: skip


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    topic, group, queue, start, pop_time, broker = checkpoint.delivery
    steps = ",".join([str(offset - start) for offset in checkpoint.offsets])
    put_back = f'"rp":"{checkpoint.times_put_back}",' if checkpoint.times_put_back else ""
    return (
        f'{{"bm":0,"bn":{encode_basestring(broker)},"c":{encode_basestring(group)},"d":[{steps}],'
        f'"it":{checkpoint.invisible_ms},"n":{len(checkpoint.offsets)},"pt":{pop_time},"q":{queue},'
        f'"reviveTime":{checkpoint.revive_time},"ro":0,{put_back}"so":{start},"t":{encode_basestring(topic)}}}'
    ).encode()


def encode_ack(ack: Ack) -> bytes:
    topic, group, queue, start, pop_time, broker = ack.delivery
    offsets = ack.offsets
    what = f"{offsets[0]}" if len(offsets) == 1 else f'-1,"aol":[{",".join(map(str, offsets))}]'
    return (
        f'{{"ao":{what},"bn":{encode_basestring(broker)},"c":{encode_basestring(group)},"pt":{pop_time},"q":{queue},'
        f'"so":{start},"t":{encode_basestring(topic)}}}'
    ).encode()


def decode_checkpoint(body: bytes) -> Checkpoint:
    """Raises CorruptRecord."""
    fields = parse_fields(body, "checkpoint")
    delivery = _read_delivery(fields, broker="")
    count = fields.integer("n")
    steps = [read_integer(step, "checkpoint.d") for step in fields.find_list("d") or range(count)]
    if not 0 <= count <= MOST_MESSAGES or len(steps) != count:
        raise CorruptRecord(0, f"checkpoint: {count} messages announced, {len(steps)} offsets found")
    offsets = tuple(delivery.start + step for step in steps)
    return Checkpoint(delivery, offsets, fields.integer("it"), fields.integer("rp"))


def decode_ack(body: bytes, *, broker: str) -> Ack:
    """An ack or a batch of them; one without a broker's name is of `broker`. Raises CorruptRecord."""
    fields = parse_fields(body, "ack")
    listed = _find(fields, "aol")
    if listed is None:
        offsets: tuple[int, ...] = (read_integer(_find(fields, "ao"), "ack.ao"),)
    elif isinstance(listed, list):
        offsets = tuple(read_integer(each, "ack.aol") for each in listed)
    else:
        raise CorruptRecord(0, "ack.aol: an array expected")
    return Ack(_read_delivery(fields, broker=broker), offsets)


def checkpoint_properties(checkpoint: Checkpoint) -> tuple[str, int]:
    """Its unique key, and when it has to arrive in the revive topic."""
    topic, group, queue, start, pop_time, broker = checkpoint.delivery
    return f"{topic}@{queue}@{start}@{group}@{pop_time}@{broker}@ck", checkpoint.revive_time - AHEAD_MS


def ack_key(ack: Ack) -> str:
    topic, group, queue, _, pop_time, broker = ack.delivery
    offset = ack.offsets[0] if len(ack.offsets) == 1 else -1
    return f"{topic}@{queue}@{offset}@{group}@{pop_time}@{broker}@ack"


def parked_properties(revive_topic: str, revive_queue: int, *, tag: str, key: str, deliver_ms: int) -> bytes:
    """The properties of a record that waits in the timer's topic, in the order of RocketMQ's hash map."""
    due = (deliver_ms - 1) // TIMER_STEP_MS * TIMER_STEP_MS
    return (
        f"REAL_TOPIC\1{revive_topic}\2TIMER_DELIVER_MS\1{deliver_ms}\2UNIQ_KEY\1{key}\2TAGS\1{tag}\2"
        f"TIMER_OUT_MS\1{due}\2REAL_QID\1{revive_queue}\2"
    ).encode()


def direct_properties(*, tag: str, key: str, deliver_ms: int) -> bytes:
    """The properties of a record whose time has come already."""
    return f"TIMER_DELIVER_MS\1{deliver_ms}\2UNIQ_KEY\1{key}\2TAGS\1{tag}\2".encode()


def _read_delivery(fields: Fields, *, broker: str) -> Delivery:
    topic, group, name = (_find(fields, each) for each in ("t", "c", "bn"))
    if not isinstance(topic, str) or not isinstance(group, str) or not topic or not group:
        raise CorruptRecord(0, "a checkpoint or ack without a topic or group")
    start, queue, pop_time = (read_integer(_find(fields, each) or 0, each) for each in ("so", "q", "pt"))
    return Delivery(topic, group, queue, start, pop_time, name if isinstance(name, str) else broker)


def _find(fields: Fields, name: str) -> object:
    found = fields.members.get(name)
    return fields.members.get(_LONG_NAMES[name]) if found is None else found
