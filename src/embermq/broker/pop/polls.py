"""Pops that wait for a message.

    pop ─→ nothing there ─→ parked under (topic, group, queue), queue -1 for all
                              ├─ a message arrives in the topic, or in the group's retry topic ─→ one of them pops again
                              ├─ another pop left messages, or an ordered queue is free again ──→ one of them pops again
                              └─ its time is up ───────────────────────────────────────────────→ told so

The store tells of arrivals in whichever thread made them visible; everything else runs in the event loop.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from embermq.broker.arrivals import Arrivals, Arrived
from embermq.clock import Clock
from embermq.format.command import Command
from embermq.log.placed import Placed
from embermq.model.pop import RETRY_V1, RETRY_V2, retry_topic_of
from embermq.rpc.peer import Peer

log = logging.getLogger(__name__)

SWEEP_S: Final = 0.05
TOO_LATE_MS: Final = 50  # so little time left is not worth waiting
ALL_QUEUES: Final = -1

Accept = Callable[[int], bool]
Key = tuple[str, str, int]


class Parking(Enum):
    """What became of a pop that wants to wait."""

    PARKED = 0
    FULL = 1  # too many wait already
    OVER = 2  # its time is up


class _Parked:
    __slots__ = ("accept", "deadline_ms", "is_waiting", "key", "peer", "request")

    def __init__(self, key: Key, peer: Peer, request: Command, accept: Accept | None, deadline_ms: int) -> None:
        self.key = key
        self.peer = peer
        self.request = request
        self.accept = accept
        self.deadline_ms = deadline_ms
        self.is_waiting = True


class PopPolls:
    """The pops that wait, by topic, group and queue."""

    def __init__(self, *, clock: Clock, most: int, most_alike: int) -> None:
        self.resume: Callable[[Peer, Command], None] = lambda peer, request: None  # pops again
        self._clock = clock
        self._most = most
        self._most_alike = most_alike
        self._parked: dict[Key, list[_Parked]] = {}
        self._keys: dict[str, set[Key]] = {}  # by the topics whose messages they wait for
        self._deadlines: list[tuple[int, int, _Parked]] = []
        self._numbers = itertools.count()
        self._count = 0
        self._arrivals = Arrivals(is_wanted=lambda place: place[0] in self._keys, tell=self._wake_arrived)
        self._sweeper: asyncio.Task[None] | None = None
        self._is_stopping = False

    def __len__(self) -> int:
        return self._count

    def count(self, topic: str, group: str, queue: int) -> int:
        """How many wait for the same."""
        return len(self._parked.get((topic, group, queue), ()))

    def start(self) -> None:
        self._arrivals.start()
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    async def stop(self) -> None:
        """Answer everybody who waits."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._arrivals.stop()
        self._is_stopping = True
        for parked in [each for waiting in self._parked.values() for each in waiting]:
            self._release(parked)

    def park(self, key: Key, peer: Peer, request: Command, accept: Accept | None, *, deadline_ms: int) -> Parking:
        """Let a pop wait until `deadline_ms`."""
        waiting = self._parked.get(key, [])
        if self._count >= self._most or len(waiting) >= self._most_alike:
            log.warning("too many pops wait count=%d alike=%d key=%s", self._count, len(waiting), key)
            return Parking.FULL
        if self._is_stopping or self._clock.now_ms() > deadline_ms - TOO_LATE_MS:
            return Parking.OVER
        parked = _Parked(key, peer, request, accept, deadline_ms)
        if not waiting:
            self._parked[key] = waiting
            for topic in _topics_of(key):
                self._keys.setdefault(topic, set()).add(key)
        waiting.append(parked)
        heapq.heappush(self._deadlines, (deadline_ms - TOO_LATE_MS, next(self._numbers), parked))
        self._count += 1
        return Parking.PARKED

    def arrived(self, items: Sequence[Placed]) -> None:
        """Messages became visible. Called by the store, in any thread."""
        if self._count:
            self._arrivals.add(items)

    def wake(self, topic: str, group: str, queue: int) -> bool:
        """Let one who waits for this queue, or for all, pop again; False if nobody does."""
        return self._wake_one((topic, group, ALL_QUEUES), None) or self._wake_one((topic, group, queue), None)

    def _wake_arrived(self, arrived: Arrived) -> None:
        for (topic, queue), codes in arrived.items():
            for key in list(self._keys.get(topic, ())):
                if topic != key[0] or key[2] in (ALL_QUEUES, queue):
                    self._wake_one(key, codes)

    def _wake_one(self, key: Key, codes: Sequence[int] | None) -> bool:
        """Let the first go that wants one of these messages; None stands for any."""
        for parked in self._parked.get(key, ()):
            accept = parked.accept
            if codes is None or accept is None or any(accept(code) for code in codes):
                self._release(parked)
                return True
        return False

    def _release(self, parked: _Parked) -> None:
        key, parked.is_waiting = parked.key, False
        waiting = self._parked[key]
        waiting.remove(parked)
        self._count -= 1
        if not waiting:
            del self._parked[key]
            for topic in _topics_of(key):
                self._keys[topic].discard(key)
                if not self._keys[topic]:
                    del self._keys[topic]
        if not parked.peer.is_closed:
            self.resume(parked.peer, parked.request)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now = self._clock.now_ms()
            while self._deadlines and (self._deadlines[0][0] < now or not self._deadlines[0][2].is_waiting):
                parked = heapq.heappop(self._deadlines)[2]
                if parked.is_waiting:
                    self._release(parked)


def _topics_of(key: Key) -> tuple[str, ...]:
    """The topics whose messages a pop is for."""
    topic, group, _ = key
    return (topic, *(retry_topic_of(topic, group, version=version) for version in (RETRY_V1, RETRY_V2)))
