"""Ordered pops: a queue whose messages are with a consumer is blocked for all others.

    pop ─→ entry: offsets, pop time, invisible time ─→ blocked while one of them is neither done nor due again
    ack ─→ its bit; the committed offset moves to the first that is not done
    due ─→ popped again from the committed offset, without those that are done

The entries are RocketMQ's config/consumerOrderInfo.json. There are no checkpoints and no retry topics, so what
was decided counts once this file and the consumer offsets are saved: `secure` waits for that, and
one saving serves all that wait.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from embermq.files.durable import read_with_backup
from embermq.format.order_json import decode_orders, encode_orders
from embermq.model.pop_order import Order
from embermq.store.offsets import ConsumerOffsets
from embermq.store.table_file import save_table

ORDERS_FILE: Final = "consumerOrderInfo.json"
EXPIRE_MS: Final = 24 * 3600 * 1000  # an entry that nobody touched for so long is forgotten

Key = tuple[str, str, int]  # topic, group, queue


class OrderTable:
    """The entries of all queues that were popped in order. Used in the event loop alone."""

    def __init__(self, path: Path, offsets: ConsumerOffsets) -> None:
        self._path = path
        self._offsets = offsets
        self._orders: dict[Key, Order] = read_with_backup(path, decode_orders) or {}
        self._ends = [(order.due_of(offset), key) for key, order in self._orders.items() for offset in order.offsets]
        heapq.heapify(self._ends)
        self._is_changed = False
        self._saving: asyncio.Task[None] | None = None
        self._next_saving: asyncio.Task[None] | None = None

    def take_freed(self, now: int) -> list[Key]:
        """The queues whose block ended since the last time, as far as nobody acknowledged anything meanwhile."""
        freed = set()
        while self._ends and self._ends[0][0] <= now:
            _, key = heapq.heappop(self._ends)
            if key in self._orders and self._orders[key].blocked_until(now) is None:
                freed.add(key)
        return list(freed)

    def find_block(self, key: Key, attempt: str | None, now: int) -> int | None:
        """Until when the queue is blocked for this attempt; None if it is not."""
        order = self._orders.get(key)
        if order is None or (attempt and order.attempt == attempt):
            return None
        return order.blocked_until(now)

    def done_of(self, key: Key) -> set[int]:
        """The messages of the queue that are done though one before them is not."""
        order = self._orders.get(key)
        return set(order.offsets).difference(order.open_offsets()) if order else set()

    def note_pop(
        self, key: Key, offsets: Sequence[int], *, pop_time: int, invisible_ms: int, attempt: str | None
    ) -> Order:
        """These messages were read, from the committed offset on; some may be done already."""
        old = self._orders.get(key)
        order = Order(list(offsets), pop_time, invisible_ms, attempt, changed_ms=pop_time)
        if old is not None:
            done = self.done_of(key)
            order.acked = sum(1 << at for at, offset in enumerate(order.offsets) if offset in done)
            order.counts = _counts(old, order)
        self._orders[key] = order
        heapq.heappush(self._ends, (pop_time + invisible_ms, key))
        self._is_changed = True
        return order

    def ack(self, key: Key, offset: int, pop_time: int, now: int) -> Order | None:
        """Note that a message is done; None if it was popped again since, or long done.

        Raises KeyError if it is not one of those that are with the consumer.
        """
        order = self._orders.get(key)
        if order is None or order.pop_time != pop_time:
            return None
        if offset not in order.offsets:
            raise KeyError(offset)
        order.acked |= 1 << order.offsets.index(offset)
        order.changed_ms = now
        self._is_changed = True
        return order

    def change(self, key: Key, offset: int, pop_time: int, due_ms: int, now: int) -> None:
        """Have a message come again at another time, if it still is of that pop."""
        order = self._orders.get(key)
        if order is not None and order.pop_time == pop_time and offset in order.offsets:
            order.due_ms[offset] = due_ms
            heapq.heappush(self._ends, (due_ms, key))
            order.changed_ms = now
            self._is_changed = True

    def expire(self, now: int) -> None:
        for key in [key for key, order in self._orders.items() if now - order.changed_ms > EXPIRE_MS]:
            self.forget_queue(key)

    def forget_queue(self, key: Key) -> None:
        if self._orders.pop(key, None) is not None:
            self._is_changed = True

    def forget_topic(self, topic: str) -> None:
        for key in [key for key in self._orders if key[0] == topic]:
            self.forget_queue(key)

    def forget_group(self, group: str) -> None:
        for key in [key for key in self._orders if key[1] == group]:
            self.forget_queue(key)

    async def secure(self) -> None:
        """Return when everything decided so far is on disk. Raises StoreUnwritable."""
        if self._next_saving is None or self._next_saving.done():
            self._next_saving = asyncio.get_running_loop().create_task(self._save_after(self._saving))
        await asyncio.shield(self._next_saving)

    async def save(self) -> None:
        """The same, if anything changed."""
        if self._is_changed:
            await self.secure()

    async def _save_after(self, running: asyncio.Task[None] | None) -> None:
        if running is not None and not running.done():
            await asyncio.wait([running])
        self._saving, self._next_saving = self._next_saving, None
        self._is_changed = False
        data = encode_orders(self._orders)
        try:
            await asyncio.to_thread(self._write, data)
        except BaseException:
            self._is_changed = True
            raise

    def _write(self, data: bytes) -> None:
        # Offsets first: an entry that blocks too much costs time, an offset that is too small costs a second delivery.
        self._offsets.save()
        save_table(self._path, data)


def _counts(old: Order, new: Order) -> dict[int, int]:
    """How often each message was delivered before: once more than the last time, unless it is the same attempt."""
    if new.attempt and old.attempt == new.attempt:
        return dict(old.counts)
    return {offset: old.counts.get(offset, 0) + 1 for offset in new.offsets if offset in old.offsets}
