"""Clients for the tests of a broker: connections that remember what they were sent, and a clock to move."""

from __future__ import annotations

import itertools

from embermq.errors import CallTimeout, ConnectionLost
from embermq.format.command import Command, decode_command, make_answer
from embermq.format.frame import split_frames
from embermq.model.message import Host
from tests.builders import ManualClock

_ports = itertools.count(40_000)


class SteppedClock(ManualClock):
    """A clock whose waits pass only when the test says so, too."""

    def monotonic(self) -> float:
        return self.time_ms / 1000


class RecordingPeer:
    """The other end of a connection. What it is asked, it answers with what the test gave it, or not at all."""

    def __init__(self, address: str = "192.0.2.1") -> None:
        self.peer = Host(address, next(_ports))
        self.local = Host("127.0.0.1", 10911)
        self.is_closed = False
        self.sent: list[Command] = []
        self.calls: list[tuple[Command, float]] = []
        self.owed = 0
        self._answers: list[tuple[int, bytes, str | None]] = []

    def will_answer(self, code: int = 0, body: bytes = b"", *, remark: str | None = None) -> None:
        """Answer the next call so."""
        self._answers.append((code, body, remark))

    def codes(self) -> list[int]:
        return [command.code for command in self.sent]

    def take_sent(self) -> list[Command]:
        """What was sent since the last time."""
        sent, self.sent = self.sent, []
        return sent

    def send(self, command: Command) -> None:
        if not self.is_closed:
            self.sent.append(command)

    def write(self, *parts: bytes | memoryview) -> None:
        frames = b"".join(parts)
        found, taken = split_frames(frames)
        assert taken == len(frames), "whole frames only"
        for frame in found:
            self.send(decode_command(frame))

    async def call(self, request: Command, *, timeout_s: float) -> Command:
        if self.is_closed:
            raise ConnectionLost(f"the connection to {self.peer} is closed")
        self.calls.append((request, timeout_s))
        if not self._answers:
            raise CallTimeout(f"{self.peer} did not answer request {request.code} within {timeout_s:g} s")
        code, body, remark = self._answers.pop(0)
        return make_answer(request, code, body=body, remark=remark)

    def owe(self, count: int) -> None:
        self.owed += count

    def settle(self, count: int) -> None:
        self.owed -= count

    def close(self) -> None:
        self.is_closed = True
