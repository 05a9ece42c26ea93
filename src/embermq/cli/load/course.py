"""How long a run goes on, and how fast: so many messages or seconds, at a rate, until somebody interrupts."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator


class Course:
    """One run. It is over after so many messages or seconds, whichever is given, or when it is interrupted."""

    def __init__(self, *, messages: int | None = None, seconds: float | None = None) -> None:
        self.over = asyncio.Event()
        self.interrupted = asyncio.Event()
        self._left = messages
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The seconds run from now on."""
        if self._seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self.over.set)

    def take(self, count: int) -> int:
        """How many of the next `count` messages still belong to the run; 0 when it is over."""
        if self.over.is_set():
            return 0
        if self._left is None:
            return count
        taken = min(count, self._left)
        self._left -= taken
        if not self._left:
            self.end()
        return taken

    def end(self) -> None:
        """No more messages."""
        self.over.set()
        if self._timer is not None:
            self._timer.cancel()

    def interrupt(self) -> None:
        """Somebody has seen enough."""
        self.interrupted.set()
        self.end()

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within it, Ctrl-C ends the run instead of the command."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)


class Pace:
    """Lets through so many messages a second; those that are late go at once."""

    def __init__(self, rate: float) -> None:
        self._interval_s = 1.0 / rate
        self._next = time.monotonic()
        self._turn = asyncio.Lock()  # one waits for its time, the others for their turn

    async def wait(self, count: int, over: asyncio.Event) -> None:
        """Return when the next `count` messages may go, or when the run is over."""
        async with self._turn:
            left_s = self._next - time.monotonic()
            if left_s > 0:
                with contextlib.suppress(TimeoutError):  # then it is their time
                    async with asyncio.timeout(left_s):
                        await over.wait()
            self._next += count * self._interval_s
