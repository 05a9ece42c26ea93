"""`gathering` with kernels: where records lie side by side is found, and those that lie scattered are copied, by them.

Scattered records are copied into one buffer that is used again and again, because fresh memory costs more than the
copy. It is used again only when nobody has a view of it any more; whoever keeps one keeps the buffer. For one thread.

This module imports kernels: to be imported once kernels are loaded.
"""

from __future__ import annotations

import weakref
from typing import Final

from embermq.files.file_chain import FileChain
from embermq.format.queue_entry import ENTRY
from embermq.kernels.gather import COPIED, Places, ReusedBuffer, collect_records
from embermq.kernels.memory import address_of
from embermq.store.gathering import NOTHING, Stretches, gather_stretches

MOST_ENTRIES: Final = 4_096  # for more, ordinary code is used
MOST_PLACES: Final = 64
BUFFER_SIZE: Final = 8 * 1024 * 1024  # two of the largest answers; only what was used is ever in memory


class CompiledGather:
    """Finds the records of queue entries. A `gathering.Gather`."""

    def __init__(self, *, buffer_size: int = BUFFER_SIZE) -> None:
        self._entries = bytearray(MOST_ENTRIES * ENTRY.size)
        self._entries_view = memoryview(self._entries)
        self._entries_address = address_of(self._entries)
        self._places = Places(MOST_PLACES)
        self._buffer = ReusedBuffer(buffer_size)
        self._addresses: dict[int, tuple[int, weakref.ref[memoryview]]] = {}  # of files, by the id of their view

    def __call__(self, entries: memoryview, chain: FileChain, max_bytes: int) -> Stretches:
        size = len(entries)
        if size > len(self._entries):
            return gather_stretches(entries, chain, max_bytes)
        self._entries_view[:size] = entries  # to a place whose address is known
        position: int = ENTRY.unpack_from(entries)[0]
        file = chain.find(position)
        if file is None:
            return NOTHING
        view, start, places, buffer = file.view, file.start, self._places, self._buffer
        if not view:  # deleted just now
            return NOTHING
        room = buffer.room()
        records, size, count = collect_records(
            self._entries_address, size, start, min(file.committed, len(view)), self._address_of(view), max_bytes,
            places.address, places.most, buffer.address + buffer.used, room,
        )  # fmt: skip
        if count == 1:
            begin = position - start
            return Stretches(records, size, (view[begin : begin + size],))
        if count == COPIED:
            return Stretches(records, size, (buffer.take(size),))
        if count > 1:
            return Stretches(records, size, [view[begin:end] for begin, end in places.ranges(count)])
        return gather_stretches(entries, chain, max_bytes)

    def _address_of(self, view: memoryview) -> int:
        """Where a file is in memory. Kept without the view: that would keep deleted files on the disk."""
        key = id(view)
        known = self._addresses.get(key)
        if known is None:
            gone = weakref.ref(view, lambda _: self._addresses.pop(key, None))
            known = self._addresses[key] = (address_of(view), gone)
        return known[0]
