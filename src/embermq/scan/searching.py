"""Finds where in a store to begin or to stop: by time, by bytes, by count. Few bytes are read for it.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final, NamedTuple

import numpy as np

from embermq.format.record_layout import HOST_FLAGS_AT, MAGIC_V1, MAGIC_V2, SCAN_HEADS
from embermq.log.time_search import first_at_or_after
from embermq.scan.columns import POSITION, SIZE
from embermq.scan.queue_entries import QueueEntries, is_blank
from embermq.scan.reading import read_split
from embermq.scan.splits import LogSplit
from embermq.scan.store_files import StoreFiles
from embermq.scan.store_state import StoreState
from embermq.scan.survey import QueueState
from embermq.scan.wanted import Wanted

_BLOCK: Final = 4096  # entries read together
_HEAD_SIZE: Final = max(head.size for head in SCAN_HEADS)
_EVERYTHING: Final = Wanted(system_topics=True, columns=(POSITION, SIZE), decode_body=False, skip_damaged=True)
_NO_LIMIT: Final = 2**63 - 1


class Stop(NamedTuple):
    """A place between two records of the log, and how many of them were passed on the way."""

    position: int
    records: int


class StoreSearch:
    """Searches in a store as it was looked at."""

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self._store = StoreFiles(state.place)

    def count_within(self, queue: QueueState, begin: int, size: int) -> int:
        """How many messages of a queue, from offset `begin` on, have at most `size` bytes in the log; at least one."""
        with closing(self._entries_of(queue)) as entries:
            at, last = entries.index_of(begin), entries.index_of(queue.end - 1) + 1
            while at < last:
                found = entries.read(at, min(at + _BLOCK, last))
                sizes = np.where(is_blank(found), 0, found["size"].astype(np.int64))
                within = int((sizes.cumsum() <= size).sum())
                at += within
                if within < len(found):
                    break
                size -= int(sizes.sum())
            return max(min(entries.offset_of(at), queue.end) - begin, 1)

    def find_time(self, queue: QueueState, offset: int) -> int | None:
        """When the message at an offset of a queue was stored, or the next one if there is none; None behind all."""
        if queue.begin == queue.end:
            return None
        with closing(self._entries_of(queue)) as entries:
            at, end = entries.index_of(max(offset, queue.begin)), entries.index_of(queue.end - 1) + 1
            while at < end:
                found = entries.read(at, min(at + _BLOCK, end))
                for position in found["position"][~is_blank(found)].tolist():
                    if (time := self._store_time(position)) is not None:
                        return time
                at += len(found)
        return None

    def find_offset(self, queue: QueueState, time_ms: int) -> int:
        """The offset of the first message of a queue that was stored at this time or later, else the queue's end."""
        if queue.begin == queue.end:
            return queue.end
        with closing(self._entries_of(queue)) as entries:

            def time_at(index: int) -> int | None:
                entry = entries.read(index, index + 1)
                return None if is_blank(entry)[0] else self._store_time(int(entry["position"][0]))

            begin, end = entries.index_of(queue.begin), entries.index_of(queue.end - 1) + 1
            return entries.offset_of(first_at_or_after(time_ms, begin, end, time_at))

    def find_position(self, time_ms: int) -> int:
        """Where a file of the log begins, before which nothing was stored at this time or later."""
        files = [file for file in self._state.files if file.start < self._state.end]
        after = first_at_or_after(time_ms, 0, len(files), lambda number: self._store_time(files[number].start))
        return files[max(after - 1, 0)].start if files else self._state.begin

    def find_stop(self, begin: int, *, count: int | None = None, size: int | None = None) -> Stop:
        """As far from `begin` as so many records or so many bytes of them go, but behind one record at least."""
        state, passed = self._state, 0
        most = _NO_LIMIT if count is None else count
        last = state.end if size is None else min(begin + size, state.end)
        files = tuple(file for file in state.files if file.end > begin and file.start < last)
        stop = begin
        for batch in read_split(LogSplit(state.place, files, begin, last, state.end), _EVERYTHING):
            ends = batch[POSITION].to_numpy() + batch[SIZE].to_numpy()
            taken = min(int((ends <= last).sum()), most - passed)
            if passed + taken == 0:
                taken = 1
            if taken:
                stop, passed = int(ends[taken - 1]), passed + taken
            if taken < len(ends) or passed >= most:
                return Stop(stop, passed)
        if last == state.end:
            return Stop(last, passed)
        return Stop(stop if passed else files[0].end, passed)  # without a record: what closes a file lies here

    def _entries_of(self, queue: QueueState) -> QueueEntries:
        found = self._store.find_queue(queue.topic, queue.queue)
        assert found is not None, queue
        return QueueEntries(self._store, found)

    def _store_time(self, position: int) -> int | None:
        """When the record at a position was stored; None if there is none."""
        file = next((file for file in self._state.files if file.start <= position < file.end), None)
        head = self._store.read(file.path, position - file.start, _HEAD_SIZE) if file else b""
        if len(head) < _HEAD_SIZE:
            return None
        fields = SCAN_HEADS[head[HOST_FLAGS_AT] >> 4 & 3].unpack_from(head)
        magic, own, store_time = fields[1], fields[5], fields[7]
        return int(store_time) if magic in (MAGIC_V1, MAGIC_V2) and own == position else None
