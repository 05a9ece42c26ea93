"""Locks on queues: whoever consumes in order owns each of its queues alone.

An owner renews its locks every 20 seconds; one that is not renewed for a minute is free again,
so that a consumer that died is followed by another. In memory only: after a restart all are free.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from embermq.clock import Clock
from embermq.format.wire_json import BrokerQueue


class _Lock(NamedTuple):
    owner: str  # a client id
    until: float


class QueueLocks:
    """Who owns which queue, by group."""

    def __init__(self, clock: Clock, *, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._clock = clock
        self._locks: dict[str, dict[BrokerQueue, _Lock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[BrokerQueue]) -> list[BrokerQueue]:
        """Take or renew the locks of a client; returns the queues that it owns now."""
        now = self._clock.monotonic()
        mine = _Lock(client_id, now + self.timeout_ms / 1000)
        locks = self._locks.setdefault(group, {})
        owned = []
        for queue in queues:
            found = locks.get(queue)
            if found is None or found.owner == client_id or found.until <= now:
                locks[queue] = mine
                owned.append(queue)
        return owned

    def unlock(self, group: str, client_id: str, queues: Iterable[BrokerQueue]) -> None:
        """Let go of locks; those of others stay."""
        locks = self._locks.get(group, {})
        for queue in queues:
            found = locks.get(queue)
            if found is not None and found.owner == client_id:
                del locks[queue]
        if not locks:
            self._locks.pop(group, None)

    def is_any_locked(self, group: str) -> bool:
        """Whether a member of the group consumes in order."""
        now = self._clock.monotonic()
        return any(lock.until > now for lock in self._locks.get(group, {}).values())

    def expire(self) -> None:
        """Forget the locks that nobody renewed."""
        now = self._clock.monotonic()
        alive = {
            group: {queue: lock for queue, lock in locks.items() if lock.until > now}
            for group, locks in self._locks.items()
        }
        self._locks = {group: locks for group, locks in alive.items() if locks}
