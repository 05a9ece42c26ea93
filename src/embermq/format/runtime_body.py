"""The figures of a running broker on the wire: `{"table":{"bootTimestamp":"…","putTps":"…"}}`."""

from __future__ import annotations

from collections.abc import Mapping

from embermq.format.json_fields import parse_fields
from embermq.format.wire_json import encode_body


def encode_runtime(figures: Mapping[str, str]) -> bytes:
    """The body that answers GET_BROKER_RUNTIME_INFO."""
    return encode_body({"table": figures})


def decode_runtime(body: bytes) -> dict[str, str]:
    """The figures by name. Raises CorruptRecord."""
    return parse_fields(body, "runtime").texts("table")
