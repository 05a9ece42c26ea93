"""Memory where appends wait for a sync that writes them: how a log with `sync` durability gets to the disk.

    on disk        taken by the sync          appended since
    ──────────┼── chunk ──┼──── chunk ────┼─ chunk ─┤ end
           written out                     ↑ one thread appends here, at the same offsets as in the file

A sync writes all that waits with one call that returns when the disk has it, and lets go of the chunks.
The map shows the bytes from then on: it and the file share the page cache.

Why not append to the map and sync that, as the other modes do: measured with records of 1.1 KB on ext4 (CPU of
the syncing thread for 1, 32 and 512 records a sync), such a sync costs 121, 174 and 419 us, because it makes every
page unwritable and the next append pays for that, and writes whole blocks of the page cache, 1 MiB for one record
where zeros were written in large pieces. Writing out of memory of our own costs 93, 111 and 236 us, and no append
ever waits for the file system.

Chunks are used again, the last one first, so that they stay in the processor's cache. What is in them is bounded by
how much may wait for the disk. One takes what a server gets in one turn: where turns of 1 MiB did not fit, new memory
for each was a fifth of the server's CPU time.
"""

from __future__ import annotations

import mmap
import threading
from collections import deque
from itertools import pairwise

from embermq.files.firming import Firming
from embermq.files.memory import address_of
from embermq.files.writing import HEAD, write_synced

CHUNK_SIZE = 2 << 20
_SPARE = 8  # chunks kept for later
_LARGEST_STEP = 16 << 20  # one write; what comes behind it waits for the next
_MOST_PIECES = 256  # of one write; no system takes more than 1 024


class ChunkPool:
    """Chunks that nobody uses, for all files of a chain. Safe from every thread."""

    def __init__(self) -> None:
        self._free: deque[mmap.mmap] = deque(maxlen=_SPARE)

    def borrow(self, size: int) -> mmap.mmap:
        """Memory of at least `size` bytes, whatever is in it."""
        if size <= CHUNK_SIZE:
            try:
                return self._free.pop()
            except IndexError:
                size = CHUNK_SIZE
        return mmap.mmap(-1, size)

    def give_back(self, memory: mmap.mmap) -> None:
        """Keep it for the next borrower, unless there are enough."""
        if len(memory) == CHUNK_SIZE:
            self._free.append(memory)


class _Chunk:
    """Memory for the bytes of a file from `begin` on."""

    __slots__ = ("begin", "memory")

    def __init__(self, begin: int, memory: mmap.mmap) -> None:
        self.begin = begin
        self.memory = memory


class Staging:
    """The bytes of one file that are not in it yet. One thread appends, another writes them out."""

    __slots__ = ("_chunks", "_guard", "_pool", "end")

    def __init__(self, pool: ChunkPool, begin: int) -> None:
        self.end = begin  # offset in the file of the next byte
        self._pool = pool
        self._chunks: deque[_Chunk] = deque()
        self._guard = threading.Lock()  # the list of chunks; never held while bytes are copied

    def add(self, data: bytes | bytearray | memoryview, done: int) -> None:
        """Append `data`; `done` is how far `write_out` has come."""
        size = len(data)
        chunk = self._chunk_for(size, done)
        at = self.end - chunk.begin
        chunk.memory[at : at + size] = data
        self.end += size

    def address(self, size: int, done: int) -> int:
        """Where offset 0 of the file would be in memory, for code that writes the next `size` bytes itself.

        Only those are there. The caller adds what it used to `end`.
        """
        chunk = self._chunk_for(size, done)
        return address_of(chunk.memory) - chunk.begin

    def write_out(self, descriptor: int, begin: int, target: int, *, firming: Firming | None, is_full: bool) -> None:
        """Bring [begin, target) onto the disk. `is_full`: nothing will follow.

        What of it was never appended stays as it is in the file. Raises OSError; then some of it may be on
        the disk, and there is no second try.
        """
        target = min(target, self.end)
        while begin < target:
            pieces = self._take(begin, target)
            end = begin + sum(map(len, pieces))
            if firming is not None:
                firming.skip(end)  # before a byte of it is written
            write_synced(descriptor, pieces, begin, head=HEAD)
            self._drop(end)
            begin = end
        if is_full:
            self.restart(target)

    def restart(self, begin: int) -> None:
        """Forget everything; the next byte goes to offset `begin`. Not while one thread appends and another writes."""
        with self._guard:
            while self._chunks:
                self._pool.give_back(self._chunks.pop().memory)
        self.end = begin

    def _take(self, begin: int, end: int) -> list[memoryview]:
        """What waits in [begin, end), or the first part of it: one write's worth."""
        with self._guard:
            bounds = [(chunk, following.begin) for chunk, following in pairwise(self._chunks)]
            bounds.append((self._chunks[-1], self.end))
        pieces: list[memoryview] = []
        size = 0
        for chunk, behind in bounds:
            first, last = max(begin, chunk.begin) - chunk.begin, min(end, behind) - chunk.begin
            if first >= last:
                continue
            if pieces and (len(pieces) == _MOST_PIECES or size + last - first > _LARGEST_STEP):
                break  # between two appends: none lies in two chunks
            pieces.append(memoryview(chunk.memory)[first:last])
            size += last - first
        return pieces

    def _drop(self, end: int) -> None:
        """Let go of chunks that lie before `end`, but for the last: the other thread may be writing to that."""
        with self._guard:
            while len(self._chunks) > 1 and self._chunks[1].begin <= end:
                self._pool.give_back(self._chunks.popleft().memory)

    def _chunk_for(self, size: int, done: int) -> _Chunk:
        """The chunk that takes the next `size` bytes."""
        last = self._chunks[-1] if self._chunks else None
        if last is not None:
            if done == self.end and size <= len(last.memory):
                last.begin = self.end  # nothing waits, so nobody reads it: it is filled from its beginning again
            if last.begin + len(last.memory) - self.end >= size:
                return last
        made = _Chunk(self.end, self._pool.borrow(size))
        with self._guard:
            self._chunks.append(made)
        return made
