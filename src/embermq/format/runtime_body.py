"""The figures of a running broker on the wire: `{"table":{"bootTimestamp":"…","putTps":"…"}}`; and of its copies."""

from __future__ import annotations

from collections.abc import Mapping

from embermq.format.json_fields import parse_fields
from embermq.format.wire_json import encode_body


def encode_runtime(figures: Mapping[str, str]) -> bytes:
    """The body that answers GET_BROKER_RUNTIME_INFO."""
    return encode_body({"table": figures})


def encode_copies(log_end: int) -> bytes:
    """The body that answers GET_BROKER_HA_STATUS: of a master that nobody copies, whose log ends there."""
    figures = ("lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset", "transferredByteInSecond")
    return encode_body(
        {
            "haClientRuntimeInfo": dict.fromkeys(figures, 0),
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": True,
            "masterCommitLogMaxOffset": log_end,
        }
    )


def decode_runtime(body: bytes) -> dict[str, str]:
    """The figures by name. Raises CorruptRecord."""
    return parse_fields(body, "runtime").texts("table")
