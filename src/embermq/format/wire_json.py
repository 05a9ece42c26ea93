"""JSON bodies on the wire as RocketMQ writes them: one line, no blanks, numbers and objects as keys.

    {"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7},"table":{1:"x"}}

Members stand in the order they are given in: the alphabet's for settings. Those that are None are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from embermq.errors import CorruptRecord
from embermq.format.java_numbers import format_double
from embermq.format.json_fields import Fields
from embermq.format.lenient_json import parse_lenient


class BrokerQueue(NamedTuple):
    """One queue of a topic at one broker."""

    broker: str
    topic: str
    queue: int


def encode_body(value: object) -> bytes:
    """`value` as the body of a request or answer."""
    return _format(value).encode("utf-8", "backslashreplace")  # a lone surrogate has no UTF-8, but an escape


def queue_members(queue: BrokerQueue) -> dict[str, object]:
    return {"brokerName": queue.broker, "queueId": queue.queue, "topic": queue.topic}


def read_queue(value: object, where: str) -> BrokerQueue:
    """The queue that a JSON object, or the text of one in the place of a key, describes. Raises CorruptRecord."""
    fields = Fields(parse_lenient(value) if isinstance(value, str) else value, where)
    queue = BrokerQueue(fields.text("brokerName", ""), fields.text("topic", ""), fields.integer("queueId"))
    if not queue.topic:
        raise CorruptRecord(0, f"{where}: a queue without a topic")
    return queue


def _format(value: object) -> str:
    match value:
        case BrokerQueue():
            return _format(queue_members(value))
        case Mapping():
            members = [f"{_format_key(key)}:{_format(member)}" for key, member in value.items() if member is not None]
            return "{" + ",".join(members) + "}"
        case list() | tuple():
            return "[" + ",".join([_format(element) for element in value]) + "]"
        case float():
            return format_double(value)
    return json.dumps(value, ensure_ascii=False)


def _format_key(key: object) -> str:
    if isinstance(key, BrokerQueue) or (isinstance(key, int) and not isinstance(key, bool)):
        return _format(key)
    return json.dumps(key, ensure_ascii=False) if isinstance(key, str) else _format(str(key))
