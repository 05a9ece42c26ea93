"""Makes files before they are needed, so that no append waits for the file system.

    prepare(path) ─> asked ─> made, synced ─> take(path) ─> the caller's
                         └─> failed ───────> take(path) raises; prepare(path) tries again

Files are made in the order they are asked for, and none after one that failed: a crash must
not leave a later file on disk without the one before it.

Two threads: one makes files, the other makes ready for writing what appends will reach next (`MappedFile.warm`), the
beginning of each new file and a window ahead of the appends. A new file has to be synced, and on a busy disk that takes
longer than a fast log takes to leave its window. Reserving, syncing and warming all let go of the GIL.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from embermq.errors import StoreClosed, SyncFailed
from embermq.files.durable import make_directory, sync_directory
from embermq.files.mapped_file import MappedFile
from embermq.files.staging import ChunkPool

log = logging.getLogger(__name__)

WINDOW = 8 << 20  # bytes kept warm ahead of the appends
_FIRST = 4 << 20  # of a file that nobody appends to yet
_STUCK_AFTER = 120.0  # seconds after which a disk that does not answer is reported


def make_file(
    path: Path, size: int, *, reserve_step: int = 0, chunks: ChunkPool | None = None, is_firmed: bool = False
) -> MappedFile:
    """A new file with its space reserved (the first step of it) and its name on disk; see MappedFile for the rest.

    Raises OSError, and leaves nothing behind, when the disk has no room for it, and
    FileExistsError when there is something at `path` already.
    """
    make_directory(path.parent)
    if path.exists() and path.stat().st_size > 0:
        raise FileExistsError(errno.EEXIST, "a new file would hide this one", str(path))
    try:
        file = MappedFile.open(path, size, reserve_step=reserve_step, chunks=chunks, is_firmed=is_firmed)
        file.reserve(1)
        sync_directory(path.parent)
    except OSError:
        path.unlink(missing_ok=True)  # and with it whatever space it got
        raise
    return file


class _Job:
    """One file that was asked for."""

    __slots__ = ("error", "file", "is_urgent", "make", "path")

    def __init__(self, path: Path, make: Callable[[], MappedFile]) -> None:
        self.path = path
        self.make = make
        self.is_urgent = False
        self.file: MappedFile | None = None
        self.error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.file is not None or self.error is not None


class Preparer:
    """Threads that make at most `limit` files ahead, and warm pages. Safe from every thread.

    Warm pages are dirty pages: the next sync writes them, zeros or not. `window` bounds that;
    0 leaves warming out. See firming.py for what warming is and costs.
    """

    def __init__(self, *, window: int = WINDOW, lock_pages: bool = False, limit: int = 8) -> None:
        self.window = window
        self._step = max(-(-window // 4), 1)  # so that the thread is woken seldom
        self._lock_pages = lock_pages
        self._limit = limit
        self._jobs: dict[Path, _Job] = {}
        self._current: _Job | None = None
        self._warming: dict[MappedFile, int] = {}  # file to where it is warm; it is asked up to `warm_end`
        self._is_stopping = False
        self._changed = threading.Condition()
        work = {"embermq-preparer": self._make_files, "embermq-warmer": self._warm_files}
        self._threads = [threading.Thread(target=do, name=name, daemon=True) for name, do in work.items()]
        for thread in self._threads:
            thread.start()

    def prepare(
        self, path: Path, size: int, *, reserve_step: int = 0, chunks: ChunkPool | None = None, is_firmed: bool = False
    ) -> bool:
        """Ask for a new file of `size` bytes; False when too many are asked for already.

        Asking twice changes nothing, unless the file could not be made: then it is tried again.
        """
        with self._changed:
            job = self._jobs.get(path)
            if job is not None and job.error is None:
                return True
            if self._is_stopping or (job is None and len(self._jobs) >= self._limit):
                return False
            make = partial(make_file, path, size, reserve_step=reserve_step, chunks=chunks, is_firmed=is_firmed)
            self._jobs[path] = _Job(path, make)
            self._changed.notify_all()
            return True

    def take(self, path: Path, timeout: float) -> MappedFile:
        """The file asked for at `path`, made next if it is not ready; it is the caller's from now on.

        Raises what went wrong in making it, TimeoutError after `timeout` seconds (the file stays
        asked for in both cases), and StoreClosed after `stop`.
        """
        with self._changed:
            job = self._jobs[path]
            job.is_urgent = True
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: job.is_done or self._is_stopping, timeout):
                raise TimeoutError(errno.ETIMEDOUT, f"not made within {timeout:g} s", str(path))
            if job.error is not None:
                raise job.error
            if job.file is None:
                raise StoreClosed(path)
            del self._jobs[path]
            return job.file

    def discard(self, path: Path) -> None:
        """Ask for the file no longer, and delete it if it was made. Any path will do."""
        with self._changed:
            job = self._jobs.pop(path, None)
            if job is None:
                return
            if not self._changed.wait_for(lambda: job is not self._current, _STUCK_AFTER):
                raise TimeoutError(errno.ETIMEDOUT, "still being made", str(path))
        if job.file is not None:
            job.file.destroy(force=True)
            sync_directory(path.parent)

    def warm_ahead(self, file: MappedFile, up_to: int) -> None:
        """Ask for the pages of `file` to be warm up to `up_to`, counted from its beginning.

        Cheap enough to call after every append.
        """
        if up_to <= file.warm_end or file.warm_end == file.size or not self.window:
            return
        with self._changed:
            self._warming.setdefault(file, file.warm_end)
            file.warm_end = min(file.size, -(-up_to // self._step) * self._step)
            self._changed.notify_all()

    def stop(self) -> None:
        """End the threads and delete the files that nobody took."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        for path in sorted(self._jobs, key=lambda path: path.name, reverse=True):
            self.discard(path)

    def _make_files(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopping or self._next_job())
                if self._is_stopping:
                    return
                job = self._current = self._next_job()
            if job is not None:
                self._make(job)

    def _warm_files(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopping or self._warming)
                if self._is_stopping:
                    return
                file = next(iter(self._warming))
            self._warm(file)

    def _next_job(self) -> _Job | None:
        jobs = self._jobs.values()
        urgent = next((job for job in jobs if job.is_urgent and not job.is_done), None)
        first = next((job for job in jobs if job.file is None), None)
        return urgent or (first if first and not first.error else None)

    def _make(self, job: _Job) -> None:
        file: MappedFile | None = None
        error: Exception | None = None
        try:
            file = self._make_file(job)
        except Exception as failure:  # whatever it is, it is for the one who takes the file
            error = failure
        with self._changed:
            job.file, job.error = file, error
            self._current = None
            if file is not None:
                file.warm_end = min(self.window, _FIRST, file.size)
                self._warming[file] = 0
            self._changed.notify_all()

    def _make_file(self, job: _Job) -> MappedFile:
        file = job.make()
        try:
            file.sync()
        except SyncFailed:
            file.destroy(force=True)
            raise
        if self._lock_pages:
            _lock_pages(file)
        return file

    def _warm(self, file: MappedFile) -> None:
        """Warm one step of what is asked for."""
        begin = max(self._warming[file], file.written)  # what appends have reached is warm by itself
        end = min(begin + self._step, file.warm_end)
        try:
            file.warm(begin, end)
        except SyncFailed as error:
            log.critical("sync failed path=%s cause=%s; the file takes no more appends", error.path, error.cause)
        with self._changed:
            self._warming[file] = end
            if end >= file.warm_end or not file.is_available:
                del self._warming[file]


def _lock_pages(file: MappedFile) -> None:
    try:
        file.lock_pages()
    except OSError as error:
        log.warning("pages not locked file=%s reason=%s; raise the limit of locked memory", file.path, error)
