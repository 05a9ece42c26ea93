"""What RocketMQ 5.3.3, its clients and mqadmin said to each other: recorded frames, in their order.

Each scenario is one file of tests/golden/data/wire. A scenario that presupposes clients that are on line
begins with the scenarios that brought them there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from embermq.format.command import Command, decode_command
from embermq.format.frame import split_frames

WIRE: Final = Path(__file__).parent / "data" / "wire"


class Recorded(NamedTuple):
    """One frame: who sent it to whom over which connection, and when."""

    scenario: str
    line: int
    peer: str  # broker or namesrv: the server's side of the connection
    is_from_client: bool
    connection: int
    time_ms: int  # since the scenario began
    kind: str  # request, oneway or response
    command: Command

    @property
    def is_request(self) -> bool:
        return self.kind != "response"

    @property
    def place(self) -> str:
        return f"{self.scenario}:{self.line}"


@cache
def read_scenario(name: str) -> tuple[Recorded, ...]:
    """All frames of a scenario, those with the name server included."""
    frames = []
    for number, text in enumerate((WIRE / f"{name}.jsonl").read_text().splitlines()):
        line = json.loads(text)
        if "frame_hex" in line:  # the last line may tell how many frames were left out
            frames.append(
                Recorded(
                    name,
                    number,
                    line["peer"],
                    line["dir"] == "c2s",
                    line["conn"],
                    line["t_ms"],
                    line["kind"],
                    _command(line["frame_hex"]),
                )
            )
    return tuple(frames)


@cache
def is_complete(name: str) -> bool:
    """Whether the recorder left no frame out; it keeps eight of a code and direction."""
    return '"note"' not in (WIRE / f"{name}.jsonl").read_text().splitlines()[-1]


@cache
def scenarios() -> tuple[str, ...]:
    """The scenarios in which a broker was asked something."""
    names = sorted(path.stem for path in WIRE.glob("*.jsonl") if path.stem != "ha")
    return tuple(name for name in names if any(is_asked(frame) for frame in read_scenario(name)))


def is_asked(frame: Recorded) -> bool:
    """A request of a client or of mqadmin to the broker."""
    return frame.peer == "broker" and frame.is_from_client and frame.is_request


def prologue_of(name: str) -> tuple[str, ...]:
    """The scenarios that brought on line whom this one asks about."""
    if name == "clients-start":
        return ("request-reply",)  # its last request is the reply to a request of that one
    if name == "clients-shutdown" or name.startswith("mqadmin-"):
        return ("request-reply", "clients-start")
    return ()


def answers_by_request(frames: Sequence[Recorded]) -> dict[str, Recorded]:
    """The answer to each request, by the request's place; one that was left out is missing."""
    waiting: dict[tuple[str, bool, int, int], Recorded] = {}
    found = {}
    for frame in frames:
        key = (frame.peer, frame.is_from_client, frame.connection, frame.command.opaque)
        if frame.is_request:
            waiting[key] = frame
        elif request := waiting.pop((key[0], not key[1], *key[2:]), None):
            found[request.place] = frame
    return found


def _command(text: str) -> Command:
    (frame,), _ = split_frames(bytes.fromhex(text))
    return decode_command(frame)
