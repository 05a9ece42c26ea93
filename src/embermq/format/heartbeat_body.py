"""The body of a heartbeat: who a client is, what it sends and what it reads.

{"clientID":…,"consumerDataSet":[{"consumeFromWhere":…,"consumeType":…,"groupName":…,"messageModel":…,
 "subscriptionDataSet":[…],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":…}],
 "withoutSub":false}
"""

from __future__ import annotations

from dataclasses import dataclass

from embermq.errors import CorruptRecord
from embermq.format.json_fields import Fields, parse_fields, read_integer
from embermq.format.wire_json import encode_body
from embermq.model.subscription import TAG_TYPE, Subscribed

PUSH = "CONSUME_PASSIVELY"
PULL = "CONSUME_ACTIVELY"
CLUSTERING = "CLUSTERING"
BROADCASTING = "BROADCASTING"
FROM_LAST = "CONSUME_FROM_LAST_OFFSET"


@dataclass(frozen=True, slots=True)
class Consumes:
    """One group that a client reads for."""

    group: str
    subscriptions: tuple[Subscribed, ...] = ()
    consume_type: str = PUSH
    message_model: str = CLUSTERING
    consume_from: str = FROM_LAST
    is_unit: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """All that a client tells of itself."""

    client_id: str
    producers: tuple[str, ...] = ()  # groups
    consumers: tuple[Consumes, ...] = ()
    fingerprint: int = 0  # of its subscriptions; 0 if the client does not use them
    omits_subscriptions: bool = False  # they are as they were in the last one that had them


def decode_heartbeat(data: bytes) -> Heartbeat:
    """Raises CorruptRecord."""
    fields = parse_fields(data, "heartbeat")
    client_id = fields.text("clientID", "")
    if not client_id:
        raise CorruptRecord(0, "heartbeat: no clientID")
    producers = [Fields(value, "heartbeat.producer") for value in fields.find_list("producerDataSet") or []]
    consumers = [Fields(value, "heartbeat.consumer") for value in fields.find_list("consumerDataSet") or []]
    return Heartbeat(
        client_id=client_id,
        producers=tuple(producer.text("groupName", "") for producer in producers),
        consumers=tuple(map(_read_consumes, consumers)),
        fingerprint=fields.integer("heartbeatFingerprint"),
        omits_subscriptions=fields.boolean("withoutSub", False),
    )


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    return encode_body(
        {
            "clientID": heartbeat.client_id,
            "consumerDataSet": [_consumes_members(consumes) for consumes in heartbeat.consumers],
            "heartbeatFingerprint": heartbeat.fingerprint,
            "producerDataSet": [{"groupName": group} for group in heartbeat.producers],
            "withoutSub": heartbeat.omits_subscriptions,
        }
    )


def read_subscribed(value: object, where: str) -> Subscribed:
    """What a client reads of one topic, from its JSON object. Raises CorruptRecord."""
    fields = Fields(value, where)
    tags = fields.find_list("tagsSet") or []
    return Subscribed(
        topic=fields.text("topic", ""),
        expression=fields.text("subString", "*"),
        expression_type=fields.text("expressionType", TAG_TYPE),
        tags=tuple(tag for tag in tags if isinstance(tag, str)),
        # Go writes these numbers in quotes.
        codes=tuple(read_integer(code, f"{where}.codeSet") for code in fields.find_list("codeSet") or []),
        version=fields.integer("subVersion"),
        is_class_filter=fields.boolean("classFilterMode", False),
    )


def subscribed_members(subscribed: Subscribed) -> dict[str, object]:
    return {
        "classFilterMode": subscribed.is_class_filter,
        "codeSet": subscribed.codes,
        "expressionType": subscribed.expression_type,
        "subString": subscribed.expression,
        "subVersion": subscribed.version,
        "tagsSet": subscribed.tags,
        "topic": subscribed.topic,
    }


def _read_consumes(fields: Fields) -> Consumes:
    default = Consumes("")
    group = fields.text("groupName", "")
    values = fields.find_list("subscriptionDataSet") or []
    return Consumes(
        group=group,
        subscriptions=tuple(read_subscribed(value, f"heartbeat of {group}") for value in values),
        consume_type=fields.text("consumeType", default.consume_type),
        message_model=fields.text("messageModel", default.message_model),
        consume_from=fields.text("consumeFromWhere", default.consume_from),
        is_unit=fields.boolean("unitMode", default.is_unit),
    )


def _consumes_members(consumes: Consumes) -> dict[str, object]:
    return {
        "consumeFromWhere": consumes.consume_from,
        "consumeType": consumes.consume_type,
        "groupName": consumes.group,
        "messageModel": consumes.message_model,
        "subscriptionDataSet": [subscribed_members(subscribed) for subscribed in consumes.subscriptions],
        "unitMode": consumes.is_unit,
    }
