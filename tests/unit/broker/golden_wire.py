"""What RocketMQ and its clients said to each other, recorded as they said it."""

from __future__ import annotations

import json
from pathlib import Path

from embermq.format.command import Command, decode_command
from embermq.format.frame import Frame, split_frames

WIRE = Path(__file__).parents[2] / "golden" / "data" / "wire"


def exchanges(name: str, code: int) -> list[tuple[Command, Command]]:
    """The requests of one code to a broker in a recording, each with its answer."""
    requests: dict[tuple[int, int], Command] = {}
    found = []
    for line in (WIRE / f"{name}.jsonl").read_text().splitlines():
        frame = json.loads(line)
        if frame.get("peer") != "broker" or "kind" not in frame:
            continue
        key = (frame["conn"], frame["opaque"])
        if frame["kind"] == "request" and frame["code"] == code:
            requests[key] = _command(frame["frame_hex"])
        elif frame["kind"] == "response" and key in requests:
            found.append((requests.pop(key), _command(frame["frame_hex"])))
    assert found, f"no request {code} in {name}"
    return found


def sent_frames(name: str, code: int) -> list[Frame]:
    """The requests of one code in a recording, as they were sent."""
    said = map(json.loads, (WIRE / f"{name}.jsonl").read_text().splitlines())
    sent = [each["frame_hex"] for each in said if each.get("kind") == "request" and each["code"] == code]
    assert sent, f"no request {code} in {name}"
    return [split_frames(bytes.fromhex(text))[0][0] for text in sent]


def _command(text: str) -> Command:
    (frame,), _ = split_frames(bytes.fromhex(text))
    return decode_command(frame)
