"""Mapped files end to end, addressed as one.

    begin                                                 end
    ├── 00…00 ──┼── 00…1024 ──┼── 00…2048 ──┼── 00…3072 ───┤· · ·
    every file but the last is full; each is named after its first position

One thread appends; others may read, flush and delete old files meanwhile. They work on
`files`, a tuple that is replaced as a whole and never changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from embermq.clock import Clock, SystemClock
from embermq.files.durable import sync_directory
from embermq.files.mapped_file import MappedFile
from embermq.files.new_files import NewFiles
from embermq.files.paths import check_no_gap, find_files, is_unused, split_at_gap
from embermq.files.preparer import Preparer
from embermq.files.readers import Readers
from embermq.files.staging import ChunkPool
from embermq.files.write_buffer import WriteBufferPool

log = logging.getLogger(__name__)


class FileChain:
    """A log of bytes kept in files of `file_size`."""

    def __init__(
        self,
        paths: Sequence[Path] | Path,
        file_size: int,
        *,
        preparer: Preparer | None = None,
        pool: WriteBufferPool | None = None,
        chunks: ChunkPool | None = None,
        reserve_step: int = 0,
        read_only: bool = False,
        read_only_paths: Sequence[Path] = (),
        is_full: Callable[[Path], bool] | None = None,
        clock: Clock | None = None,
        ahead: int = 2,
    ) -> None:
        """New files go to `paths`; none are made in `read_only_paths`, nor where `is_full` says so.

        With a `preparer`, the next `ahead` files are made before they are needed. With a `pool` appends go through
        write buffers, with `chunks` they are staged; see MappedFile.
        """
        self.paths = (paths,) if isinstance(paths, Path) else tuple(paths)
        self.read_only_paths = tuple(read_only_paths)
        self.file_size = file_size
        self.read_only = read_only
        self.files: tuple[MappedFile, ...] = ()
        self.readers = Readers()
        self.hung: tuple[MappedFile, ...] = ()  # to be deleted, but held by readers
        self._preparer = preparer
        self._pool = pool
        self._chunks = chunks
        self._is_firmed = preparer is not None and pool is None  # what a buffer writes needs no zeros before it
        self._reserve_step = reserve_step
        self._clock = clock or SystemClock()
        self._new = NewFiles(
            lambda: [path for path in self.paths if path not in self.read_only_paths],
            file_size,
            preparer=preparer,
            chunks=chunks,
            is_firmed=self._is_firmed,
            reserve_step=reserve_step,
            is_full=is_full,
            ahead=ahead,
        )
        self._replacing = threading.Lock()  # guards the step from one `files` to the next, nothing slow

    def load(self) -> None:
        """Find the files that are there; each counts as full until recovery says otherwise.

        Called again on a read-only chain, it finds what the owner has made and deleted since.
        Raises ForeignFile, WrongFileSize, MissingFile.
        """
        known = {file.path: file for file in self.files}
        try:
            files = self._open_files(known)
        except FileNotFoundError:
            if not self.read_only:
                raise
            files = self._open_files(known)  # the owner deleted one between our finding and opening it
        self.files = files
        _close_all(file for file in known.values() if file not in files)

    @property
    def last(self) -> MappedFile | None:
        """The file that takes appends, if there is one."""
        files = self.files
        return files[-1] if files else None

    @property
    def begin(self) -> int:
        """The first position there is."""
        files = self.files
        return files[0].start if files else 0

    @property
    def end(self) -> int:
        """The position the next append gets."""
        last = self.last
        return last.start + last.written if last else 0

    @property
    def readable_end(self) -> int:
        """Up to where it can be read; below `end` when a write buffer has some of it."""
        return self.committed

    @property
    def free_buffers(self) -> int | None:
        """Write buffers that wait for a file; None without a pool."""
        return None if self._pool is None else self._pool.free

    @property
    def committed(self) -> int:
        """Up to where everything is in the files."""
        return self._reached(lambda file: file.committed)

    @property
    def flushed(self) -> int:
        """Up to where everything is on disk."""
        return self._reached(lambda file: file.flushed)

    def append_file(self, at: int | None = None) -> MappedFile:
        """The file to append to: the last one, or a new one when that is full.

        `at` is a position in the first file of an empty chain. Raises FileSealed when the last
        file's sync failed, and OSError when no file can be made.
        """
        last = self.last
        if last is not None and not last.is_full:
            return last
        if last is not None:
            last.check_not_sealed()
        assert not self.read_only
        start = last.start + self.file_size if last else (at or 0) // self.file_size * self.file_size
        if last is None:
            self._new.begin_at(start)
        file = self._new.take(start)
        if self._pool is not None:
            self._attach_buffer(file, self._pool)
        if last is not None:
            last.unlock_pages()
        with self._replacing:
            self.files = (*self.files, file)
        self._new.plan_after(start)
        return file

    def ensure_next(self, sizes: Sequence[int]) -> None:
        """Have as many next files ready, with disk space for these `sizes`: appends there cannot fail.

        Raises OSError when one of them cannot be made; the chain is as before.
        """
        start = self.files[-1].start if self.files else -self.file_size
        for step, size in enumerate(sizes, 1):
            self._new.ensure(start + step * self.file_size, size)

    def prepare_next(self) -> None:
        """Ask the preparer, if there is one, for the files to come."""
        last = self.last
        self._new.plan_after(last.start if last else -self.file_size)

    def warm_ahead(self) -> None:
        """Have the preparer, if there is one, warm the pages that appends will reach next. Cheap."""
        last = self.last
        if self._preparer is not None and last is not None:
            self._preparer.warm_ahead(last, last.written + self._preparer.window)

    def find(self, position: int) -> MappedFile | None:
        """The file that covers `position`, written or not."""
        files = self.files
        if not files:
            return None
        index = (position - files[0].start) // self.file_size
        return files[index] if 0 <= index < len(files) else None

    def find_by_time(self, time_ms: int) -> MappedFile | None:
        """The first file changed at or after `time_ms`, else the last."""
        files = self.files
        for file in files:
            try:
                if file.modified_ms >= time_ms:
                    return file
            except FileNotFoundError:  # deleted since
                continue
        return files[-1] if files else None

    def select(self, position: int, size: int) -> memoryview | None:
        """The `size` bytes at `position`, not copied; None when they are not all readable in one file."""
        file = self.find(position)
        if file is None:
            return None
        offset = position - file.start
        if offset + size > file.committed:
            return None
        part = file.view[offset : offset + size]
        return part if len(part) == size else None  # shorter when the file was deleted just now

    def select_rest(self, position: int) -> memoryview | None:
        """All that can be read from `position` on in its file, not copied; None when that is nothing."""
        file = self.find(position)
        if file is None:
            return None
        return file.view[position - file.start : file.committed] or None

    def set_end(self, position: int) -> None:
        """Say where the log ends, as recovery found it; files after that are deleted.

        No byte is changed: to be used where all that follows `position` is known to be empty.
        """
        self._delete_after(position)
        file = self.find(position)
        if file is not None:
            file.set_end(position - file.start)

    def truncate(self, position: int) -> None:
        """Forget everything from `position` on: files after it are deleted, the rest of its file zeroed.

        On return that is on disk. Raises SyncFailed.
        """
        self._delete_after(position)
        file = self.find(position)
        if file is not None:
            file.truncate(position - file.start)

    def flush(self, least_pages: int = 0) -> int:
        """Force what is readable now onto the disk, file after file; return how far that is.

        Raises SyncFailed, and FileSealed every time after that.
        """
        for file in self._iter_behind(lambda file: file.flushed):
            file.flush(least_pages)
        return self.flushed

    def forget(self, begin: int, end: int) -> None:
        """Have the kernel let go of the pages [begin, end), as far as they are on the disk."""
        for file in self.files:
            first, last = max(begin - file.start, 0), min(end - file.start, file.size)
            if first < last and not file.read_only:
                file.forget_pages(first, last)

    def commit(self, least_pages: int = 0) -> int:
        """Bring what only write buffers have into the files; return how far that is. Raises SyncFailed."""
        for file in self._iter_behind(lambda file: file.committed):
            file.commit(least_pages)
        return self.committed

    def sync(self, begin: int = 0) -> None:
        """Force every file that reaches beyond `begin` onto the disk, whatever its positions say.

        What recovery finds may be in memory only, left there by a process that was killed.
        """
        for file in self.files:
            if file.start + self.file_size > begin and not file.read_only:
                file.sync()

    def delete_before(self, position: int) -> int:
        """Delete the files that end at or before `position`, never the last; return how many went."""
        return len(self.delete_oldest(lambda file: file.start + self.file_size <= position))

    def delete_oldest(self, predicate: Callable[[MappedFile], bool], limit: int | None = None) -> list[Path]:
        """Delete files from the oldest on for as long as `predicate` holds; return which went.

        Never the last file and at most `limit`. A file that readers hold is hidden at once and
        waits in `hung`; nothing after it is deleted, so that no gap can arise.
        """
        assert not self.read_only
        deleted: list[Path] = []
        if not self.retry_hung():
            return deleted
        for file in self.files[:-1]:
            if len(deleted) == limit or not predicate(file):
                break
            with self._replacing:
                self.files = tuple(other for other in self.files if other is not file)
                self.hung = (file,)
            if not self.retry_hung():
                break
            deleted.append(file.path)
        return deleted

    def retry_hung(self, force_after_ms: int | None = None, now: int | None = None) -> bool:
        """Delete files that were held before; whether all are gone.

        By force when that was `force_after_ms` or longer ago. `now` is in ms since 1970, the
        clock's time unless given.
        """
        now_ms = self._clock.now_ms() if now is None else now
        for file in self.hung:
            since = now_ms if file.first_shutdown_ms is None else file.first_shutdown_ms
            force = force_after_ms is not None and now_ms - since >= force_after_ms
            if file.destroy(force=force, now_ms=now_ms):
                with self._replacing:
                    self.hung = tuple(other for other in self.hung if other is not file)
                sync_directory(file.path.parent)
        return not self.hung

    def destroy(self) -> None:
        """Delete every file and every directory of new files that is empty then."""
        self._new.discard()
        self._delete(self.hung + self.files)
        self.files = self.hung = ()
        for path in self.paths:
            try:
                path.rmdir()
            except OSError:  # not there, or others keep files in it
                continue
            sync_directory(path.parent)

    def close(self) -> None:
        """Let go of all files; views that were selected stay readable. Flush first."""
        self._new.discard()
        for file in self.hung + self.files:
            file.close()
        self.files = self.hung = ()

    def _open_files(self, known: Mapping[Path, MappedFile]) -> tuple[MappedFile, ...]:
        files: list[MappedFile] = []
        try:
            paths = self._find_paths()
            for path in paths:
                files.append(known.get(path) or self._open_file(path, is_last=path == paths[-1]))
        except BaseException:
            _close_all(file for file in files if file.path not in known)
            raise
        return tuple(files)

    def _find_paths(self) -> list[Path]:
        """The paths of all files in order, but for an empty last one."""
        found = find_files(self.paths + self.read_only_paths)
        if found and found[-1].stat().st_size == 0:
            # Its making was cut short by a crash, or is under way elsewhere.
            self._drop("empty", found.pop())
        whole, behind = split_at_gap(found, self.file_size)
        if behind and all(map(is_unused, behind)):
            for path in reversed(behind):  # made ahead; the disk failed when they were to be deleted
                self._drop("unused", path)
            return whole
        check_no_gap(found, self.file_size)
        return found

    def _drop(self, what: str, path: Path) -> None:
        if not self.read_only:
            log.warning("file deleted kind=%s file=%s", what, path)
            path.unlink()
            sync_directory(path.parent)

    def _open_file(self, path: Path, *, is_last: bool) -> MappedFile:
        # The last file takes appends until it is full, even where no new ones are made.
        read_only = self.read_only or (path.parent in self.read_only_paths and not is_last)
        return MappedFile.open(
            path, self.file_size, written=self.file_size, read_only=read_only, reserve_step=self._reserve_step,
            chunks=self._chunks, is_firmed=self._is_firmed,
        )  # fmt: skip

    def _reached(self, position_of: Callable[[MappedFile], int]) -> int:
        """The position of the first file that is not done, or of the last."""
        file = next(self._iter_behind(position_of), None)
        return file.start + position_of(file) if file else 0

    def _iter_behind(self, position_of: Callable[[MappedFile], int]) -> Iterator[MappedFile]:
        """From the first file that is not done to the last; done files all lie before it."""
        files = self.files
        first = max(len(files) - 1, 0)
        while first > 0 and position_of(files[first - 1]) < self.file_size:
            first -= 1
        return iter(files[first:])

    def _attach_buffer(self, file: MappedFile, pool: WriteBufferPool) -> None:
        buffer = pool.borrow()
        if buffer is None:
            self.commit()  # all files so far are full, so theirs come back
            buffer = pool.borrow()
        if buffer is not None:
            file.attach(buffer)
        else:
            log.warning("no write buffer free, appends go straight to file=%s", file.path)

    def _delete_after(self, position: int) -> None:
        assert not self.read_only
        self._new.discard()
        with self._replacing:
            later = tuple(file for file in self.files if file.start > position)
            self.files = self.files[: len(self.files) - len(later)]
        self._delete(later)
        last = self.last
        if last is not None and last.read_only:  # of a read-only path, but now it takes appends
            with self._replacing:
                self.files = (*self.files[:-1], self._open_file(last.path, is_last=True))
            last.close()

    def _delete(self, files: tuple[MappedFile, ...]) -> None:
        """Delete files from the newest on, so that a crash in between leaves no gap."""
        for file in reversed(files):
            file.destroy(force=True, now_ms=self._clock.now_ms())
            sync_directory(file.path.parent)


def _close_all(files: Iterable[MappedFile]) -> None:
    for file in files:
        file.close()
