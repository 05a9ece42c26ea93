"""Small files that survive a crash: the old content or the new, never half of either."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from embermq.errors import EmberError

log = logging.getLogger(__name__)

T = TypeVar("T")
_libc = ctypes.CDLL(None, use_errno=True)

# What a file system without hard links answers.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: those added, replaced and deleted."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Bring what is in memory of a file to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(path: Path) -> None:
    """Bring all that is in memory of the file system with `path` to the disk: for many files, the faster way."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(path))
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory with all its parents, durably; nothing happens when it is there."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def replace_file(path: Path, data: bytes, *, keep_backup: bool = False, is_private: bool = False) -> None:
    """Make `data` the content of the file at `path`, at once and durably.

    With `keep_backup` the content so far is kept as `<name>.bak`; a file that `is_private` can be
    read by its owner alone. There is no moment without a whole file at `path`. One caller at a time
    per path. Raises OSError; the old content stays.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        if is_private:  # one that was left behind may be readable
            temporary.unlink(missing_ok=True)
        _write(temporary, [data], os.O_TRUNC, mode=0o600 if is_private else 0o644)
        if keep_backup and path.exists():
            _back_up(path)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def read_with_backup(path: Path, decode: Callable[[bytes], T]) -> T | None:
    """Decode the file at `path`, or its `.bak` when it is missing, empty or undecodable.

    None when neither has any content. Nothing is deleted. Raises what `decode` raises when the
    backup is needed and undecodable, or when there is content but no backup for it.
    """
    failure: Exception | None = None
    try:
        if data := _content(path):
            return decode(data)
    except (EmberError, ValueError) as error:
        failure = error
    backup = _content(path.with_name(path.name + ".bak"))
    if backup:
        log.warning("backup used file=%s reason=%s", path, failure or "missing or empty")
        return decode(backup)
    if failure is not None:
        raise failure
    return None


def write_aside(path: Path, chunks: Iterable[bytes | memoryview]) -> Path:
    """Keep bytes in a new file, durably, and return its path.

    It is `path`, or with a number added where that exists: nothing is ever overwritten.
    """
    make_directory(path.parent)
    target, number = path, 0
    while True:
        try:
            _write(target, chunks, os.O_EXCL)
        except FileExistsError:
            number += 1
            target = path.with_name(f"{path.name}.{number}")
        else:
            sync_directory(path.parent)
            return target


def _write(path: Path, chunks: Iterable[bytes | memoryview], flag: int, *, mode: int = 0o644) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flag, mode)
    with open(descriptor, "wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(descriptor)


def _back_up(path: Path) -> None:
    """Give the present content a second name; by a hard link, so that it keeps its first."""
    temporary = path.with_name(path.name + ".bak.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(path, temporary)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _write(temporary, [path.read_bytes()], os.O_TRUNC)
    os.replace(temporary, path.with_name(path.name + ".bak"))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
