"""Offsets by queue, as requests to reset them and their answers have them: {"offsetTable":{{…}:7}}."""

from __future__ import annotations

from collections.abc import Mapping

from embermq.format.json_fields import parse_fields, read_integer
from embermq.format.wire_json import BrokerQueue, encode_body, read_queue


def encode_offset_table(offsets: Mapping[BrokerQueue, int]) -> bytes:
    return encode_body({"offsetTable": offsets})


def decode_offset_table(data: bytes) -> dict[BrokerQueue, int]:
    """Raises CorruptRecord."""
    table = parse_fields(data, "offsets").items("offsetTable")
    return {read_queue(key, "offsetTable"): read_integer(offset, "offsetTable") for key, offset in table}
