"""What must hold whatever a server is asked: one answer each, a known code, nothing unforeseen in its log."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from embermq.errors import BadFrame
from embermq.format.command import Command, decode_command, encode_command
from embermq.format.frame import MAX_FRAME_SIZE, Frame, FrameLimits, split_frames
from embermq.kernels.commands import decode_command as decode_fast
from embermq.model.codes import ResponseCode
from embermq.rpc.router import Router
from embermq.server.logs import HumanLines, JsonLines
from tests.unit.broker.peers import RecordingPeer

CLIENT_LIMITS = FrameLimits(header_size=MAX_FRAME_SIZE)  # answers repeat parts of a request, which JSON makes longer
SLOWEST_S = 5.0  # for one request, on a busy machine
KNOWN_CODES = frozenset(map(int, ResponseCode))
_DECODERS: tuple[Callable[[Frame], Command], ...] = (decode_fast, decode_command)  # with and without the compiled one


def describe(command: Command) -> str:
    """A command as text; some show only when they are looked at that they are none."""
    try:
        return f"{command!r:.2000}"
    except BadFrame as error:
        return f"<{command.code} opaque={command.opaque} {error!s:.500}>"


class Unforeseen(logging.Handler):
    """Collects what a log must not hold: errors that nobody foresaw, and events of more than one line."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []
        self._formatters = (HumanLines(), JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        lines = [formatter.format(record) for formatter in self._formatters]
        if record.exc_info or record.levelno >= logging.ERROR or any("\n" in line for line in lines):
            self.found.append(lines[0][-3000:])


@contextmanager
def nothing_unforeseen() -> Iterator[Unforeseen]:
    """Fail at the end if the log has what it must not have."""
    watcher = Unforeseen()
    source = logging.getLogger("embermq")
    level = source.level
    source.addHandler(watcher)
    source.setLevel(logging.INFO)
    try:
        yield watcher
    finally:
        source.setLevel(level)
        source.removeHandler(watcher)
    assert watcher.found == [], f"{len(watcher.found)} times, first:\n{watcher.found[0]}"


class Asking:
    """Puts frames to a router and keeps count of what it answers."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.counts: Counter[str] = Counter()
        self.outcomes: Counter[tuple[int, int]] = Counter()
        self.peer = RecordingPeer()
        self.slowest = (0.0, "")
        self._asked: dict[int, Command] = {}

    def put(self, frame: bytes) -> None:
        """One frame, as a connection would hand it on: refused as a frame, or given to the router."""
        self.counts["cases"] += 1
        decode = _DECODERS[self.counts["cases"] % len(_DECODERS)]
        try:
            frames, taken = split_frames(frame)
            requests = [decode(each) for each in frames]
        except BadFrame as error:
            assert str(error)
            self.counts["no frame"] += 1
            return
        if taken < len(frame):
            self.counts["cut off"] += 1
        for request in requests:
            if not request.is_answer:
                self._receive(request)

    def collect(self) -> None:
        """Look at all answers so far: each to a request that wanted one and had none, whole and with a known code."""
        for answer in self.peer.take_sent():
            if not answer.is_answer:
                continue  # a request of the server's own, such as a notification
            request = self._asked.pop(answer.opaque, None)
            assert request is not None, f"answered twice, or not asked: {describe(answer)}"
            assert not request.is_oneway, f"{describe(request)} wants no answer, got {describe(answer)}"
            assert answer.code in KNOWN_CODES, f"{describe(request)} got {describe(answer)}"
            assert answer.code == 0 or answer.remark, f"{describe(request)} got {describe(answer)}"
            (frame,), _ = split_frames(encode_command(answer), CLIENT_LIMITS)
            assert decode_command(frame).fields == {k: v for k, v in answer.fields.items() if v or not answer.form}
            self.outcomes[request.code, answer.code] += 1
            self.counts["answered"] += 1

    def waiting(self) -> list[Command]:
        """The requests that have no answer yet, though they want one."""
        return [request for request in self._asked.values() if not request.is_oneway]

    def forget_waiting(self) -> None:
        """A new connection: what the old one waited for is nobody's any more."""
        self.peer.close()
        self.peer = RecordingPeer()
        self._asked.clear()

    def _receive(self, request: Command) -> None:
        # Numbers of a damaged frame may repeat; an answer must be told apart from all others.
        request.opaque = self.counts["requests"]
        self.counts["requests"] += 1
        self._asked[request.opaque] = request
        began = time.perf_counter()
        self.router.receive(self.peer, [request])
        seconds = time.perf_counter() - began
        if seconds > self.slowest[0]:
            self.slowest = (seconds, describe(request)[:500])
        assert seconds < SLOWEST_S, f"{seconds:.1f} s for {describe(request)}"
