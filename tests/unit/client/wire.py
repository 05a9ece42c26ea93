"""Frames that RocketMQ's own clients and servers exchanged, from the golden data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from tests.conftest import GOLDEN


class WireFrame(NamedTuple):
    code: int
    is_request: bool
    fields: dict[str, str]
    body: bytes


def iter_frames(name: str, *, code: int) -> Iterator[WireFrame]:
    """The frames of one exchange: requests with `code`, and the answers to them."""
    for line in (GOLDEN / "wire" / f"{name}.jsonl").read_text().splitlines():
        frame = json.loads(line)
        if "header" not in frame or code != frame.get("request_code", frame["code"]):
            continue
        fields = frame["header"].get("extFields") or {}
        is_request = "request_code" not in frame
        yield WireFrame(frame["header"]["code"], is_request, fields, bytes.fromhex(frame["body_hex"]))
