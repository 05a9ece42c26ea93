"""The bodies of LOCK and UNLOCK: a client of a group, and queues.

request   {"clientId":…,"consumerGroup":…,"mqSet":[{…}],"onlyThisBroker":false}
answer    {"lockOKMQSet":[{…}]}, of LOCK only
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from embermq.errors import CorruptRecord
from embermq.format.json_fields import parse_fields
from embermq.format.wire_json import BrokerQueue, encode_body, read_queue


@dataclass(frozen=True, slots=True)
class LockRequest:
    """Which queues a client wants, or gives back."""

    client_id: str
    group: str
    queues: tuple[BrokerQueue, ...]


def decode_lock_request(data: bytes) -> LockRequest:
    """Raises CorruptRecord."""
    fields = parse_fields(data, "lock")
    client_id, group = fields.text("clientId", ""), fields.text("consumerGroup", "")
    if not client_id or not group:
        raise CorruptRecord(0, "lock: clientId and consumerGroup are needed")
    return LockRequest(client_id, group, _read_queues(fields.find_list("mqSet")))


def encode_lock_request(request: LockRequest) -> bytes:
    return encode_body(
        {
            "clientId": request.client_id,
            "consumerGroup": request.group,
            "mqSet": [*request.queues],
            "onlyThisBroker": False,
        }
    )


def decode_locked(data: bytes) -> tuple[BrokerQueue, ...]:
    """Raises CorruptRecord."""
    return _read_queues(parse_fields(data, "locked").find_list("lockOKMQSet"))


def encode_locked(queues: Sequence[BrokerQueue]) -> bytes:
    return encode_body({"lockOKMQSet": [*queues]})


def _read_queues(values: list[object] | None) -> tuple[BrokerQueue, ...]:
    return tuple(read_queue(value, "lock.mqSet") for value in values or [])
