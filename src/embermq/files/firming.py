"""Turns space that is only reserved into zeros, ahead of what is written there.

    0                      end                     reserved          size
    ├───────────────────────┼─────────────────────────┼────────────────┤
    │ may be written to     │ only zeros are written here, and only
    │                       │ where there is no data

Whoever wants to write beyond `end` moves it first, so that zeros never go over something else. One thread does it
ahead of time; who comes too early does it itself, a piece at a time.

Why zeros, as measured on ext4 with records of 1.1 KB:

- A map. A first write to a page that is not in memory took an append up to 36 ms of CPU at times, probably because
  the kernel takes in a large block around it; populating ahead with madvise took up to 29 ms, in another thread. Over
  zeros that were written in pieces of 512 KiB, the longest of the same appends took 0.2 ms. CPU for one MiB, from
  nothing to the disk, medians: 310 to 350 us populated, 290 to 320 us with zeros in pieces of 512 KiB or 1 MiB, 240 to
  250 us in pieces of 2 MiB or 4 MiB: 2 MiB is what the kernel keeps and maps as one block, so that the sync that
  follows has less to do (45 us of it instead of 80 to 100). It also writes all of such a block if one byte in it
  was changed through the map, so that large pieces are for files that grow by some MiB between two syncs.
- A sync that writes to reserved space waits until the file system has noted on the disk that there is data now; one
  that writes over zeros does not. CPU, the least of six runs: 76 us instead of 129 for a sync of 32 records, 146 us
  instead of 256 for one of 512. Time, medians: 0.93 and 0.64 of it. The zeros cost 240 us a MiB when they have to be on
  the disk, so that small syncs gain far more CPU than they pay; the largest pay what they gain, but return sooner.

- Records made in memory of their own and written into the file by the appending thread, with no zeros and no map: a
  server on one core took 2.6 instead of 2.8 us of CPU for a message sent alone, but 2.45 instead of 2.1 for one of a
  batch of 32, and fewer of those in a second, because then the appending thread waits for the system to find memory.
  Measured again with pages that the log had given back (recent_pages.py): 0.71 instead of 0.65 us for one of a batch,
  and 1.0 instead of 0.8 for one of 512 in flight. Alone, in pieces of 512 KiB where blocks begin, such writes cost half
  of zeros and a map; but a turn of a server begins and ends anywhere, and the kernel keeps it in many small blocks.

All of it on a machine with other work, so that differences below a tenth mean nothing.

Zeros go some MiB ahead instead of into whole files, so that a store which is hardly used does not write gigabytes.

Files that were in use before would need no zeros. But what is behind the end of such a file are old records,
RocketMQ's recovery takes a record for whole by its size, magic and body checksum without looking at the position in
it, and those of one size lie at the same places in every file: they would come back after a crash. So no file is
used again.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from embermq.errors import SyncFailed
from embermq.files.writing import write_whole
from embermq.files.zeroing import iter_holes

log = logging.getLogger(__name__)

PIECE = 1 << 19
LARGE_PIECE = 1 << 21  # for a file with much to be synced at a time
_MUCH = 2 * LARGE_PIECE
_ZEROS = memoryview(bytes(LARGE_PIECE))


class Firming:
    """Writes zeros into one file, beside those who write to it. Safe from every thread."""

    __slots__ = ("_descriptor", "_guard", "_path", "end")

    def __init__(self, path: Path) -> None:
        self.end = 0
        self._path = path
        self._descriptor = -1
        self._guard = threading.Lock()

    def skip(self, end: int) -> None:
        """Write no more zeros below `end`: from now on others write there."""
        if end > self.end:
            with self._guard:
                self.end = max(self.end, end)

    def advance(self, end: int, limit: int, *, unsynced: int = 0) -> bool:
        """Have no zeros to write below `end`, nor any behind `limit`; whether some were written.

        Only a help: where zeros cannot be written, that is logged, and what follows is left as it is. How many bytes
        are `unsynced` tells how fast the file grows.
        """
        piece = LARGE_PIECE if unsynced >= _MUCH else PIECE
        is_changed, end = False, min(end, limit)
        while self.end < end:
            with self._guard:  # for one piece, then others may have their turn
                begin = self.end
                following = min(begin - begin % piece + piece, limit)
                if begin >= end:
                    continue  # somebody else was faster
                try:
                    is_changed |= self._write_zeros(begin, following)
                except OSError as error:
                    log.warning("no zeros written ahead file=%s position=%d reason=%s", self._path, begin, error)
                    following = max(end, following)
                self.end = following
        return is_changed

    def sync(self) -> None:
        """Bring them to the disk. Raises SyncFailed; then no later sync of the file can be believed."""
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise SyncFailed(self._path, error) from error

    def close(self) -> None:
        """Let go of the descriptor; call it when nobody else is at work here."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write_zeros(self, begin: int, end: int) -> bool:
        if self._descriptor < 0:
            # Of its own: of a failed write-back the kernel tells every opener once, so that syncs of zeros
            # take no failure away from those of records.
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        is_changed = False
        # Holes alone: whatever is there, zeros of an earlier time too, is left as it is.
        for first, last in iter_holes(self._descriptor, begin, end):
            write_whole(self._descriptor, _ZEROS[: last - first], first)
            is_changed = True
        return is_changed
