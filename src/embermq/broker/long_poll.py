"""Pulls that wait for a message.

    pull ─→ nothing new ─→ parked under (topic, queue)
                              ├─ a message that it may want arrives ─→ pulled again
                              ├─ its time is up ────────────────────→ pulled again, and answered whatever there is
                              └─ its connection is gone ────────────→ forgotten

The store tells of arrivals in whichever thread made them visible; everything else runs in the
event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from embermq.broker.arrivals import Arrivals, Arrived
from embermq.clock import Clock
from embermq.format.command import Command
from embermq.log.placed import Placed
from embermq.model.subscription import Subscribed
from embermq.rpc.peer import Peer

log = logging.getLogger(__name__)

SWEEP_S = 1.0
UNWANTED_S = 5.0

Accept = Callable[[int], bool]


class Parked(NamedTuple):
    """A pull that waits for messages from `offset` on; `subscribed` is what its group wanted when it came."""

    peer: Peer
    request: Command
    accept: Accept | None
    offset: int
    since: float
    deadline: float
    subscribed: Subscribed | None = None


Resume = Callable[[Parked], None]


class LongPolls:
    """The pulls that wait, by topic and queue."""

    def __init__(self, *, clock: Clock, most: int, end_of: Callable[[str, int], int]) -> None:
        self.resume: Resume = lambda parked: None  # pulls again
        self._clock = clock
        self._most = most
        self._end_of = end_of  # the next offset of a queue
        self._parked: dict[tuple[str, int], list[Parked]] = {}
        self._count = 0
        self._arrivals = Arrivals(is_wanted=self._parked.__contains__, tell=self._wake)
        self._sweeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return self._count

    def start(self) -> None:
        self._arrivals.start()
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    async def stop(self) -> None:
        """Answer everybody who waits."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for key in list(self._parked):
            self._release(key, lambda parked: True)

    def park(
        self,
        topic: str,
        queue: int,
        peer: Peer,
        request: Command,
        accept: Accept | None,
        *,
        offset: int,
        wait_s: float,
        subscribed: Subscribed | None = None,
    ) -> bool:
        """Let a pull wait; False if too many do."""
        if self._count >= self._most:
            log.warning("too many pulls wait count=%d peer=%s topic=%s", self._count, peer.peer, topic)
            return False
        now = self._clock.monotonic()
        self._keep(topic, queue, Parked(peer, request, accept, offset, now, now + wait_s, subscribed))
        return True

    def park_again(self, topic: str, queue: int, parked: Parked, *, offset: int) -> bool:
        """Let a pull wait that wants nothing of what came before `offset`; False if it has waited long enough."""
        now = self._clock.monotonic()
        if now >= min(parked.deadline, parked.since + UNWANTED_S):
            return False
        self._keep(topic, queue, parked._replace(offset=offset))
        return True

    def _keep(self, topic: str, queue: int, parked: Parked) -> None:
        self._parked.setdefault((topic, queue), []).append(parked)
        self._count += 1

    def arrived(self, items: Sequence[Placed]) -> None:
        """Messages became visible. Called by the store, in any thread."""
        if self._count:
            self._arrivals.add(items)

    def wake(self, topic: str, queue: int) -> None:
        """Pull again, whatever waits for this queue: something about it has changed."""
        self._release((topic, queue), lambda parked: True)

    def wake_topic(self, topic: str) -> None:
        """The same for all queues of a topic."""
        for key in [key for key in self._parked if key[0] == topic]:
            self.wake(*key)

    def _wake(self, arrived: Arrived) -> None:
        for key, codes in arrived.items():
            self._release(key, partial(_wants, codes=codes))

    def _release(self, key: tuple[str, int], is_ready: Callable[[Parked], bool]) -> None:
        parked = self._parked.pop(key, None)
        if parked is None:
            return
        ready: list[Parked] = []
        rest: list[Parked] = []
        for each in parked:
            (ready if is_ready(each) else rest).append(each)
        if rest:
            self._parked[key] = rest
        self._count -= len(ready)
        for each in ready:
            if not each.peer.is_closed:
                self.resume(each)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now = self._clock.monotonic()
            for key in list(self._parked):
                self._release(key, partial(_is_over, now=now, end=self._end_of(*key)))


def _is_over(parked: Parked, *, now: float, end: int) -> bool:
    """Whether a pull has waited long enough; so has one that missed an arrival.

    One that wants none of what came is told after a while how far it may go on, so that its group's offset does.
    """
    has_more = parked.offset < end and (parked.accept is None or now - parked.since >= UNWANTED_S)
    return parked.deadline <= now or parked.peer.is_closed or has_more


def _wants(parked: Parked, *, codes: Sequence[int]) -> bool:
    accept = parked.accept
    return accept is None or any(accept(code) for code in codes)
