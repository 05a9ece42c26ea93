"""Assignments on the wire, and how a group takes the messages of a topic: by PULL or by POP.

The same JSON of modes is the table config/messageRequestMode.json:

    {"messageRequestModeMap":{"orders":{"billing":{"consumerGroup":"billing","mode":"POP",…}}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord
from embermq.format.json_fields import Fields, parse_fields, read_items
from embermq.format.lenient_json import format_fastjson
from embermq.format.wire_json import BrokerQueue, encode_body, queue_members, read_queue

PULL: Final = "PULL"
POP: Final = "POP"


class RequestMode(NamedTuple):
    """How one group takes the messages of one topic."""

    topic: str
    group: str
    mode: str = PULL
    shared_queues: int = 0  # POP: whose shares a client gets besides its own; 0 or less: all


class AssignmentQuery(NamedTuple):
    """A client asks for its queues."""

    topic: str
    group: str
    client_id: str
    strategy: str
    message_model: str


class Assigned(NamedTuple):
    """One queue of a client; queue -1 stands for all of the broker."""

    queue: BrokerQueue
    mode: str


Modes = Mapping[tuple[str, str], RequestMode]  # by (topic, group)


def encode_mode(mode: RequestMode) -> bytes:
    """The body of SET_MESSAGE_REQUEST_MODE."""
    return encode_body(_mode_members(mode))


def decode_mode(body: bytes) -> RequestMode:
    """Raises CorruptRecord."""
    mode = _read_mode(parse_fields(body, "mode"))
    if not mode.topic or not mode.group:
        raise CorruptRecord(0, "mode: topic and consumerGroup must be there")
    return mode


def encode_modes(modes: Modes) -> bytes:
    """The body that answers GET_ALL_MESSAGE_REQUEST_MODE."""
    return encode_body(_modes_members(modes))


def encode_modes_file(modes: Modes) -> bytes:
    """The same as the text of messageRequestMode.json."""
    return format_fastjson(_modes_members(modes)).encode()


def decode_modes(data: bytes) -> dict[tuple[str, str], RequestMode]:
    """Either of the two. Raises CorruptRecord."""
    modes = {}
    for topic, groups in parse_fields(data, "modes").items("messageRequestModeMap"):
        for group, value in read_items(groups, f"modes.{topic}"):
            modes[topic, group] = _read_mode(Fields(value, f"modes.{topic}.{group}"))._replace(topic=topic, group=group)
    return modes


def encode_query(query: AssignmentQuery) -> bytes:
    """The body of QUERY_ASSIGNMENT."""
    return encode_body(
        {
            "clientId": query.client_id,
            "consumerGroup": query.group,
            "messageModel": query.message_model,
            "strategyName": query.strategy,
            "topic": query.topic,
        }
    )


def decode_query(body: bytes) -> AssignmentQuery:
    """Raises CorruptRecord."""
    fields = parse_fields(body, "query")
    names = ("topic", "consumerGroup", "clientId", "strategyName")
    topic, group, client_id, strategy = (fields.text(name, "") for name in names)
    return AssignmentQuery(topic, group, client_id, strategy, fields.text("messageModel", "CLUSTERING"))


def encode_assignment(assigned: Sequence[Assigned] | None) -> bytes:
    """The answer to it; None means: keep what you have."""
    queues = None
    if assigned is not None:
        queues = [{"messageQueue": queue_members(queue), "mode": mode} for queue, mode in assigned]
    return encode_body({"messageQueueAssignments": queues})


def decode_assignment(body: bytes) -> list[Assigned] | None:
    """Raises CorruptRecord."""
    values = parse_fields(body, "assignment").find_list("messageQueueAssignments")
    if values is None:
        return None
    every = [Fields(value, "assignment") for value in values]
    return [Assigned(read_queue(each.members.get("messageQueue"), "queue"), each.text("mode", PULL)) for each in every]


def _mode_members(mode: RequestMode) -> dict[str, object]:
    return {
        "consumerGroup": mode.group,
        "mode": mode.mode,
        "popShareQueueNum": mode.shared_queues,
        "topic": mode.topic,
    }


def _modes_members(modes: Modes) -> dict[str, object]:
    topics: dict[str, dict[str, object]] = {}
    for (topic, group), mode in modes.items():
        topics.setdefault(topic, {})[group] = _mode_members(mode)
    return {"messageRequestModeMap": topics}


def _read_mode(fields: Fields) -> RequestMode:
    mode = fields.text("mode", PULL)
    if mode not in (PULL, POP):
        raise CorruptRecord(0, f"mode {mode[:80]!r}: {PULL} or {POP} expected")
    topic, group = fields.text("topic", ""), fields.text("consumerGroup", "")
    return RequestMode(topic, group, mode, fields.integer("popShareQueueNum"))
