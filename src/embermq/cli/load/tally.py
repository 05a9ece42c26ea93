"""What a run measured: messages, bytes, times, errors, and what it cost the client itself."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter

from embermq.cli.load.latencies import Latencies


class Tally:
    """Counts for one run; its clock runs from `begin` to `finish`."""

    def __init__(self, *kinds: str, unit_ms: float) -> None:
        """`kinds` of times are measured, in units of `unit_ms` milliseconds."""
        self.messages = 0
        self.bytes = 0
        self.latencies = {kind: Latencies() for kind in kinds}
        self.unit_ms = unit_ms
        self.errors: Counter[str] = Counter()
        self.first_errors: dict[str, str] = {}  # what the first of each kind said
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self._began = self._cpu_began = 0.0

    def begin(self) -> None:
        self._began, self._cpu_began = time.monotonic(), time.process_time()

    def finish(self) -> None:
        self.seconds = time.monotonic() - self._began
        self.cpu_seconds = time.process_time() - self._cpu_began

    def count(self, messages: int, size: int) -> None:
        """So many messages, of `size` bytes together."""
        self.messages += messages
        self.bytes += size

    def fail(self, kind: str, said: str, count: int = 1) -> None:
        """So many messages, or one request, failed."""
        self.errors[kind] += count
        self.first_errors.setdefault(kind, " ".join(said.split()))

    def percentile_ms(self, kind: str, percent: float) -> float:
        return self.latencies[kind].percentile(percent) * self.unit_ms

    def largest_ms(self, kind: str) -> float:
        return self.latencies[kind].largest * self.unit_ms

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def megabytes_rate(self) -> float:
        """Megabytes of bodies a second."""
        return self.bytes / 1e6 / self.seconds if self.seconds else 0.0

    @property
    def cpu_share(self) -> float:
        """How much of a core the client needed."""
        return self.cpu_seconds / self.seconds if self.seconds else 0.0


async def show_seconds(tally: Tally, *, every_s: float = 1.0) -> None:
    """A line a second on a terminal, until cancelled; nothing elsewhere."""
    if not sys.stderr.isatty():
        return
    kind = next(iter(tally.latencies))
    began = last = time.monotonic()
    messages, size = tally.messages, tally.bytes
    while True:
        await asyncio.sleep(every_s)
        now = time.monotonic()
        rate, megabytes = (tally.messages - messages) / (now - last), (tally.bytes - size) / 1e6 / (now - last)
        print(
            f"{now - began:5.0f} s {rate:10.0f} messages/s {megabytes:8.1f} MB/s"
            f"  p50 {format_ms(tally.percentile_ms(kind, 50))}  p99 {format_ms(tally.percentile_ms(kind, 99))}"
            + (f"  {tally.errors.total()} errors" if tally.errors else ""),
            file=sys.stderr,
            flush=True,
        )
        last, messages, size = now, tally.messages, tally.bytes


def format_ms(ms: float) -> str:
    """`0.42 ms`, `12.3 ms`, `1.50 s`."""
    if ms >= 10_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms:.2f} ms" if ms < 10 else f"{ms:.1f} ms" if ms < 100 else f"{ms:.0f} ms"
