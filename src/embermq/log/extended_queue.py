"""What does not fit into the entries of a consume queue: store times and filter bits.

    file 0                                    file 1
    ├ entry │ entry │ … │ end mark │ zeros ┤  ├ entry │ zeros …  ┤

An entry never crosses a file, and four bytes behind it stay free for the mark that
closes the file. The consume queue keeps the address of each entry in the place of the
tags code. Entries that nothing refers to do no harm; the next load drops them.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from embermq.errors import CorruptRecord
from embermq.files.file_chain import FileChain
from embermq.format.extended_entry import (
    END_MARK,
    MAX_EXTENDED_SIZE,
    ExtendedEntry,
    decode_extended_entry,
    encode_extended_entry,
)
from embermq.format.queue_entry import MAX_REAL, address_of, is_address, real_of

log = logging.getLogger(__name__)

RESERVE_STEP: Final = 65_536
_KEPT_FREE: Final = 4  # behind the last entry of a file
_CHECKED: Final = bytes(4_096)  # what must follow the end that was found; else it is written there


class ExtendedQueue:
    """The extended entries of one queue. One thread writes, any number may read."""

    def __init__(self, folder: Path, *, file_size: int, read_only: bool = False) -> None:
        self.folder = folder
        self._files = FileChain(folder, file_size, reserve_step=RESERVE_STEP, read_only=read_only)
        self._floor = 0  # below this, the queue may hold addresses of entries that are lost

    def load(self, last: int | None = None) -> None:
        """Find the files, and the end of their entries: behind the one at `last`, the last address in use.

        Without that, or if there is no entry, the last file is read from its beginning.
        """
        self._files.load()
        if self._files.last is not None:
            self._files.last.advise_random()  # nothing is worth reading ahead, see entry_chain
        end = None if last is None else self._find_end_of(last)
        self._floor = 0 if end is not None or last is None else real_of(last) + 1
        if end is None:
            end = self._scan_end()
        if not self._files.read_only:
            (self._files.set_end if self._is_zero_behind(end) else self._files.truncate)(end)

    @property
    def min_address(self) -> int:
        """The address of the first entry there is or can be."""
        return address_of(self._files.begin)

    @property
    def max_address(self) -> int:
        """The address behind the last entry."""
        return address_of(self._files.end)

    @property
    def is_dirty(self) -> bool:
        """Whether a `flush` has something to do."""
        return self._files.flushed < self._files.end

    def put(self, entry: ExtendedEntry) -> int | None:
        """Add `entry` and return its address; None when there is no place for it."""
        if entry.size > min(MAX_EXTENDED_SIZE, self._files.file_size - _KEPT_FREE):
            return None
        if self._files.end + entry.size + self._files.file_size > MAX_REAL:
            return None
        try:
            return address_of(self._append(encode_extended_entry(entry)))
        except OSError as error:
            # The queue then keeps the tags code itself, and filters read the message instead.
            log.warning("no extended entry folder=%s cause=%s", self.folder, error)
            return None

    def get(self, address: int) -> ExtendedEntry | None:
        """The entry at `address`; None when that is no address, or there is no entry."""
        data = self._files.select_rest(real_of(address)) if is_address(address) else None
        try:
            return None if data is None else decode_extended_entry(data)
        except CorruptRecord:
            return None

    def cut(self, last: int) -> None:
        """Forget the entries behind the one at address `last`."""
        end = self._find_end_of(last)
        if end is not None:
            self._files.truncate(end)
            self._floor = 0

    def delete_before(self, address: int) -> int:
        """Delete the files that lie before `address`, never the last; return how many went."""
        return self._files.delete_before(real_of(address)) if is_address(address) else 0

    def flush(self, least_pages: int = 0) -> None:
        """Bring what is written onto the disk. Raises SyncFailed."""
        self._files.flush(least_pages)

    def sync(self) -> None:
        """Bring everything onto the disk, also what `load` found there in memory. Raises SyncFailed."""
        self._files.sync()

    def destroy(self) -> None:
        """Delete the files and their folder."""
        self._files.destroy()
        self._floor = 0

    def close(self) -> None:
        """Let go of the files. Flush first."""
        self._files.close()

    def _append(self, data: bytes) -> int:
        last = self._files.last
        if last is not None and self._floor > last.start + last.size:
            log.warning("extended entries lost, all dropped folder=%s", self.folder)
            self._files.destroy()
        file = self._files.append_file(self._floor + self._files.file_size - 1)
        left = file.size - file.written
        if len(data) + _KEPT_FREE > left or file.start + file.written < self._floor:
            file.append(END_MARK.ljust(left, b"\0"))
            file = self._files.append_file()
        if file.written == 0:
            file.advise_random()
        return file.append(data)

    def _find_end_of(self, address: int) -> int | None:
        """Where the entry at `address` ends, if there is one."""
        entry = self.get(address)
        return None if entry is None else real_of(address) + entry.size

    def _is_zero_behind(self, end: int) -> bool:
        data = bytes((self._files.select_rest(end) or b"")[: len(_CHECKED)])
        return data == _CHECKED[: len(data)]

    def _scan_end(self) -> int:
        """Where the entries of the last file end."""
        last = self._files.last
        if last is None:
            return 0
        at = 0
        while (entry := self.get(address_of(last.start + at))) is not None:
            at += entry.size
        return last.start + at
