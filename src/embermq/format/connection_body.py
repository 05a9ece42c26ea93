"""Who is connected, as administrators are told.

38   {"consumerIdList":[…]}
203  {"connectionSet":[…],"consumeFromWhere":…,"consumeType":…,"messageModel":…,"subscriptionTable":{…}}
204  {"connectionSet":[{"clientAddr":…,"clientId":…,"language":…,"version":479}]}
328  {"data":{"group":[{"clientId":…,"language":…,"lastUpdateTimestamp":…,"remoteIP":…,"version":479}]}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from embermq.format.heartbeat_body import read_subscribed, subscribed_members
from embermq.format.json_fields import Fields, parse_fields
from embermq.format.wire_json import encode_body
from embermq.model.subscription import Subscribed


@dataclass(frozen=True, slots=True)
class Connected:
    """One client at its connection."""

    address: str
    client_id: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class ConsumerConnections:
    """The members of a group and what they read."""

    consume_type: str
    message_model: str
    consume_from: str
    clients: tuple[Connected, ...]
    subscriptions: Mapping[str, Subscribed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """One producer in the list of all."""

    client_id: str
    language: str
    version: int
    address: str
    seen_ms: int


def encode_consumer_ids(client_ids: Sequence[str]) -> bytes:
    return encode_body({"consumerIdList": [*client_ids]})


def decode_consumer_ids(data: bytes) -> list[str]:
    """Raises CorruptRecord."""
    return [str(client_id) for client_id in parse_fields(data, "consumers").find_list("consumerIdList") or []]


def encode_consumer_connections(connections: ConsumerConnections) -> bytes:
    table = {topic: subscribed_members(wanted) for topic, wanted in connections.subscriptions.items()}
    return encode_body(
        {
            "connectionSet": [_connected_members(client) for client in connections.clients],
            "consumeFromWhere": connections.consume_from,
            "consumeType": connections.consume_type,
            "messageModel": connections.message_model,
            "subscriptionTable": table,
        }
    )


def decode_consumer_connections(data: bytes) -> ConsumerConnections:
    """Raises CorruptRecord."""
    fields = parse_fields(data, "consumer connections")
    table = fields.items("subscriptionTable")
    return ConsumerConnections(
        consume_type=fields.text("consumeType", ""),
        message_model=fields.text("messageModel", ""),
        consume_from=fields.text("consumeFromWhere", ""),
        clients=_read_connected(fields),
        subscriptions={topic: read_subscribed(value, f"subscription of {topic}") for topic, value in table},
    )


def encode_producer_connections(clients: Sequence[Connected]) -> bytes:
    return encode_body({"connectionSet": [_connected_members(client) for client in clients]})


def decode_producer_connections(data: bytes) -> tuple[Connected, ...]:
    """Raises CorruptRecord."""
    return _read_connected(parse_fields(data, "producer connections"))


def encode_all_producers(groups: Mapping[str, Sequence[ProducerEntry]]) -> bytes:
    return encode_body({"data": {group: [_producer_members(entry) for entry in groups[group]] for group in groups}})


def _producer_members(entry: ProducerEntry) -> dict[str, object]:
    return {
        "clientId": entry.client_id,
        "language": entry.language,
        "lastUpdateTimestamp": entry.seen_ms,
        "remoteIP": entry.address,
        "version": entry.version,
    }


def _connected_members(client: Connected) -> dict[str, object]:
    return {
        "clientAddr": client.address,
        "clientId": client.client_id,
        "language": client.language,
        "version": client.version,
    }


def _read_connected(fields: Fields) -> tuple[Connected, ...]:
    found = [Fields(value, "connection") for value in fields.find_list("connectionSet") or []]
    return tuple(
        Connected(
            address=client.text("clientAddr", ""),
            client_id=client.text("clientId", ""),
            language=client.text("language", ""),
            version=client.integer("version"),
        )
        for client in found
    )
