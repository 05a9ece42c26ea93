"""Where the next files of a chain come from: the preparer, or made on the spot.

    plan_after ─> planned ─> ready ─> take
                 (asked of   (made,
                 the preparer) unused)

Files that are planned or ready are on disk, empty, and not part of the chain yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from embermq.files.durable import sync_directory
from embermq.files.mapped_file import MappedFile
from embermq.files.paths import choose_path, file_name
from embermq.files.preparer import Preparer, make_file
from embermq.files.staging import ChunkPool

TAKE_TIMEOUT = 5.0  # seconds to wait for a file from the preparer


class NewFiles:
    """Makes the files of one chain, for the thread that appends to it."""

    def __init__(
        self,
        candidates: Callable[[], Sequence[Path]],
        file_size: int,
        *,
        preparer: Preparer | None,
        chunks: ChunkPool | None,
        is_firmed: bool,
        reserve_step: int,
        is_full: Callable[[Path], bool] | None,
        ahead: int,
    ) -> None:
        self._candidates = candidates
        self._file_size = file_size
        self._preparer = preparer
        self._chunks = chunks
        self._is_firmed = is_firmed
        self._reserve_step = reserve_step
        self._is_full = is_full
        self._ahead = ahead
        self._planned: dict[int, Path] = {}
        self._ready: dict[int, MappedFile] = {}

    def take(self, start: int) -> MappedFile:
        """The empty file that begins at `start`. Raises OSError when it cannot be made."""
        self.ensure(start)
        return self._ready.pop(start)

    def ensure(self, start: int, size: int = 1) -> None:
        """Have the file that begins at `start` ready, with disk space for `size` bytes. Raises OSError."""
        if start not in self._ready:
            self._ready[start] = self._make(start)
        self._ready[start].reserve(size)

    def plan_after(self, start: int) -> None:
        """Ask the preparer, if there is one, for the files that follow the one at `start`."""
        if self._preparer is None:
            return
        for step in range(1, self._ahead + 1):
            following = start + step * self._file_size
            if following in self._ready:
                continue
            path = self._planned.get(following) or self._path_for(following)
            if not self._ask(self._preparer, path):
                return
            self._planned[following] = path

    def begin_at(self, start: int) -> None:
        """Say where an empty chain begins: what was planned for another beginning is deleted."""
        if start not in self._planned and start not in self._ready:
            self.discard()

    def discard(self) -> None:
        """Delete all that is planned or ready, the newest first, so that a crash in between leaves no gap."""
        for start in sorted(self._planned.keys() | self._ready.keys(), reverse=True):
            file, path = self._ready.pop(start, None), self._planned.pop(start, None)
            if file is not None:
                file.destroy(force=True)
                sync_directory(file.path.parent)
            elif path is not None and self._preparer is not None:
                self._preparer.discard(path)

    def _make(self, start: int) -> MappedFile:
        path = self._planned.get(start) or self._path_for(start)
        if self._preparer is not None and self._ask(self._preparer, path):
            self._planned[start] = path  # stays so if the wait is too long
            file = self._preparer.take(path, TAKE_TIMEOUT)
        else:
            file = make_file(
                path, self._file_size, reserve_step=self._reserve_step, chunks=self._chunks, is_firmed=self._is_firmed
            )
        self._planned.pop(start, None)
        return file

    def _ask(self, preparer: Preparer, path: Path) -> bool:
        return preparer.prepare(
            path, self._file_size, reserve_step=self._reserve_step, chunks=self._chunks, is_firmed=self._is_firmed
        )

    def _path_for(self, start: int) -> Path:
        candidates = self._candidates()
        full = [path for path in candidates if self._is_full is not None and self._is_full(path)]
        return choose_path(candidates, full, start, self._file_size) / file_name(start)
