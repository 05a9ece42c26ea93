"""What consumers say of messages that they popped in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from embermq.broker.pop.orders import OrderTable
from embermq.broker.tables import Tables
from embermq.clock import Clock
from embermq.errors import IllegalMessage
from embermq.model.pop import Handle


class Acked(NamedTuple):
    """A message of which a consumer says something."""

    topic: str
    group: str
    queue: int
    offset: int
    handle: Handle

    @property
    def place(self) -> tuple[str, str, int]:
        return self.topic, self.group, self.queue


class OrderAcks:
    """Moves ordered queues on."""

    def __init__(
        self,
        tables: Tables,
        orders: OrderTable,
        *,
        wake: Callable[[str, str, int], object],
        is_sync: bool,
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._orders = orders
        self._wake = wake  # one who waits for a queue
        self._is_sync = is_sync
        self._clock = clock

    def ack(self, acked: Acked) -> None:
        """A message is done: the queue goes on at the first that is not. Raises IllegalMessage."""
        place, offset, now = acked.place, acked.offset, self._clock.now_ms()
        if offset < (self._tables.offsets.find(*place) or 0):
            return  # done long ago
        try:
            order = self._orders.ack(place, offset, acked.handle.pop_time, now)
        except KeyError:
            raise IllegalMessage(
                f"message {offset} of {acked.topic}/{acked.queue} is not among those that group {acked.group!r} "
                "popped last; pop again"
            ) from None
        if order is None:
            return  # it was popped again since, and that is what counts
        self._tables.offsets.commit(*place, order.next_offset())
        if order.blocked_until(now) is None:
            self._wake(*place)

    def change(self, acked: Acked, invisible_ms: int) -> Handle:
        """Have a message come again `invisible_ms` from now; returns its handle with that time."""
        handle, now = acked.handle, self._clock.now_ms()
        due_ms = now + invisible_ms
        self._orders.change(acked.place, acked.offset, handle.pop_time, due_ms, now)
        return handle._replace(invisible_ms=due_ms - handle.pop_time)

    async def secure(self) -> None:
        """Return when no crash can undo what was said, as far as the store's durability promises that."""
        if self._is_sync:
            await self._orders.secure()
