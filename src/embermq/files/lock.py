"""One owner per store directory.

The lock is a POSIX record lock on byte 0 of `<root>/lock`, the one RocketMQ takes, so that
the two never work on one directory at once. Such locks have two quirks:

- they do not conflict within a process, hence the table of what this process holds;
- they vanish when the process closes *any* descriptor of the file, hence nothing here opens
  a lock file that this process may hold.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from pathlib import Path
from typing import Self

from embermq.errors import StoreLocked
from embermq.files.durable import make_directory

LOCK_NAME = "lock"
_SHOWN_COMMAND = 200  # characters of a command line

_FLOCK = struct.Struct("@hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, length, pid

_held: dict[tuple[int, int], Path] = {}  # device and inode of every lock file this process has locked
_guard = threading.Lock()


class DirectoryLock:
    """The right to change what is in `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / LOCK_NAME
        self._descriptor = -1
        self._identity = (0, 0)

    @property
    def is_held(self) -> bool:
        """Whether this object has the lock."""
        return self._descriptor >= 0

    def take(self) -> None:
        """Lock the directory, making it and its lock file if need be.

        To be called before anything in the directory is touched. Raises StoreLocked.
        """
        with _guard:
            if _identity(self.path) in _held:
                raise StoreLocked(f"{self.root} is in use by this process; close the other store first")
            make_directory(self.root)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                self._lock(descriptor)
                os.pwrite(descriptor, b"lock", 0)
                os.fsync(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            status = os.fstat(descriptor)
            self._identity = status.st_dev, status.st_ino
            self._descriptor = descriptor
            _held[self._identity] = self.path

    def release(self) -> None:
        """Unlock; nothing happens when it is not held."""
        with _guard:
            if self._descriptor < 0:
                return
            descriptor, self._descriptor = self._descriptor, -1
            del _held[self._identity]
            os.close(descriptor)

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except (BlockingIOError, PermissionError) as error:
            owner = _name_of(_owner(descriptor) or 0)
            raise StoreLocked(f"{self.root} is in use by {owner} ({self.path}); stop it first") from error


def is_locked(root: Path) -> bool:
    """Whether some process, this one included, owns the directory. Takes no lock itself."""
    return find_owner(root) is not None


def find_owner(root: Path) -> str | None:
    """Who owns the directory, in words; None if nobody does. Takes no lock itself."""
    path = root / LOCK_NAME
    with _guard:
        if _identity(path) in _held:
            return "this process"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            pid = _owner(descriptor)
        finally:
            os.close(descriptor)
    return None if pid is None else _name_of(pid)


def _name_of(pid: int) -> str:
    """A process by its number and its program; it may be on another machine, or out of sight."""
    if not pid:
        return "another process"
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        command = ""
    return f"process {pid} ({command[:_SHOWN_COMMAND]})" if command else f"process {pid}"


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _owner(descriptor: int) -> int | None:
    """The process that holds the lock; 0 when it is on another machine or out of sight; None when nobody."""
    question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else max(pid, 0)
