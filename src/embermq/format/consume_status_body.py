"""Where consumers say they are.

221, a client's answer     {"consumerTable":{},"messageQueueTable":{{…}:5}}
223, the broker's          {"consumerTable":{"client":{{…}:5}},"messageQueueTable":{}}
"""

from __future__ import annotations

from collections.abc import Mapping

from embermq.format.json_fields import parse_fields, read_integer, read_items
from embermq.format.wire_json import BrokerQueue, encode_body, read_queue


def decode_client_status(data: bytes) -> dict[BrokerQueue, int]:
    """Raises CorruptRecord."""
    return _read_offsets(parse_fields(data, "consumer status").items("messageQueueTable"))


def encode_client_status(offsets: Mapping[BrokerQueue, int]) -> bytes:
    return encode_body({"consumerTable": {}, "messageQueueTable": offsets})


def decode_consume_status(data: bytes) -> dict[str, dict[BrokerQueue, int]]:
    """Raises CorruptRecord."""
    clients = parse_fields(data, "consume status").items("consumerTable")
    return {client_id: _read_offsets(read_items(value, client_id)) for client_id, value in clients}


def encode_consume_status(clients: Mapping[str, Mapping[BrokerQueue, int]]) -> bytes:
    return encode_body({"consumerTable": clients, "messageQueueTable": {}})


def _read_offsets(items: list[tuple[str, object]]) -> dict[BrokerQueue, int]:
    return {read_queue(key, "queue"): read_integer(offset, "offset") for key, offset in items}
