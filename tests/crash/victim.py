"""Starts the writer, kills it, and keeps what it had reported until then."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What a put that returned had promised."""

    number: int
    queue: int
    offset: int
    position: int
    crc: int


@dataclass(slots=True)
class LastWords:
    """All that a writer said before it ended."""

    exit_code: int = 0
    is_open: bool = False
    acknowledged: list[Acknowledged] = field(default_factory=list)
    durable: int = 0  # all before this log position was on disk
    after_cut: set[int] = field(default_factory=set)  # numbers acknowledged after `at_kill`
    refused: dict[int, str] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)  # what else went wrong with the disk
    ended: str | None = None  # the error that opening or closing raised
    calls: dict[str, int] = field(default_factory=dict)

    @property
    def was_killed(self) -> bool:
        return self.exit_code in (-signal.SIGKILL, -signal.SIGBUS)

    def add(self, line: str) -> None:
        match line.split(" ", 1):
            case ["opened"]:
                self.is_open = True
            case ["put", rest]:
                self.acknowledged.append(Acknowledged(*map(int, rest.split())))
            case ["durable", rest]:
                self.durable = int(rest)
            case ["refused", rest]:
                number, error = rest.split(" ", 1)
                self.refused[int(number)] = error
            case ["trouble", rest]:
                self.troubles.append(rest)
            case ["ended", rest]:
                self.ended = rest
            case ["calls", rest]:
                self.calls = {call: int(count) for call, count in (each.split("=") for each in rest.split())}
            case _:
                raise AssertionError(f"the writer says: {line}")


class Writers:
    """A running writer program, ready for one job after the other."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.writer", str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
                pass_fds=[theirs.fileno()],
            )

    def run(
        self,
        path: Path,
        settings: dict[str, Any],
        *,
        seed: int,
        begin: int = 0,
        steps: int = 100,
        lanes: int = 1,
        only_puts: bool = False,
        death: dict[str, Any] | None = None,
        kill_after: float | None = None,
        at_kill: Callable[[], None] | None = None,
    ) -> LastWords:
        """Let it write until it ends, or is killed: by itself as `death` says, by us after some seconds.

        Where `at_kill` is given it is called at that moment, and the kill follows a little later.
        """
        job = {
            "path": str(path), "settings": settings, "seed": seed, "begin": begin, "steps": steps, "lanes": lanes,
            "death": death, "only_puts": only_puts,
        }  # fmt: skip
        ours, theirs = os.pipe()
        socket.send_fds(self._control, [json.dumps(job).encode()], [theirs])
        os.close(theirs)
        pid = int(self._control.recv(64))
        words = LastWords()
        with io.FileIO(ours) as pipe:
            heard, later = _listen(pipe, pid, kill_after, at_kill)
        for line in heard.decode().splitlines():
            words.add(line)
        sure, durable = len(words.acknowledged), words.durable
        for line in later.decode().splitlines():
            words.add(line)
        if at_kill is not None:
            words.after_cut, words.durable = {each.number for each in words.acknowledged[sure:]}, durable
        words.exit_code = int(self._control.recv(64))
        return words

    def close(self) -> None:
        self._control.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


GRACE_S = 0.3  # how long a writer whose disk has died may go on talking


def _listen(
    pipe: io.FileIO, pid: int, kill_after: float | None, at_kill: Callable[[], None] | None
) -> tuple[bytes, bytes]:
    """What is said up to the kill, or to the call of `at_kill`, and what after that."""
    heard, before = bytearray(), b""
    deadline = None if kill_after is None else time.monotonic() + kill_after
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if select.select([pipe], [], [], left)[0]:
            part = pipe.read(65_536)
            if not part:
                return before, bytes(heard)
            heard += part
        elif at_kill is not None:
            before, heard = bytes(heard), bytearray()
            at_kill()
            at_kill, deadline = None, time.monotonic() + GRACE_S
        else:
            os.kill(pid, signal.SIGKILL)
            deadline = None
