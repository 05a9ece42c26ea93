"""Directories that jobs make: nobody sees one before it is whole.

    .NAME.unfinished/lock       who works on it
    .NAME.unfinished/result/    what becomes NAME, at once, when everything in it is on disk

What a job leaves that was killed is removed by the next one with the same target.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from embermq.errors import StoreLocked, StoreReadOnly
from embermq.files.durable import make_directory, sync_directory, sync_file
from embermq.files.lock import LOCK_NAME, DirectoryLock
from embermq.files.space import DiskSpace
from embermq.jobs.errors import NoRoom, TargetExists

_RESULT = "result"
_PROBE = ".probe"
_NOT_EMPTY = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


def check_target(target: Path, *, needs: int = 0) -> None:
    """See whether a directory could be made at `target`, with `needs` bytes in it. Changes nothing.

    Raises TargetExists if there is anything but an empty directory, NoRoom without so much space.
    """
    try:
        if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
            raise TargetExists(target)
    except PermissionError as error:
        raise StoreReadOnly(target, error) from error
    check_room(target, needs=needs)


def check_room(place: Path, *, needs: int) -> None:
    """Raise NoRoom if the disk that `place` is or would be on has not `needs` bytes free."""
    free = DiskSpace.usage(place.absolute()).free
    if free < needs:
        raise NoRoom(place, needs=needs, free=free)


@contextmanager
def building(target: Path, *, needs: int = 0) -> Iterator[Path]:
    """A directory to build in. It becomes `target` when the block is left; if by an error or Ctrl-C, it is removed.

    Raises what `check_target` raises, StoreLocked if another process builds the same, StoreReadOnly if nothing can
    be made there; then nothing was changed.
    """
    check_target(target, needs=needs)
    unfinished = target.absolute().with_name(f".{target.name}.unfinished")
    lock = DirectoryLock(unfinished)
    try:
        make_directory(unfinished.parent)
        lock.take()
    except StoreLocked as error:
        raise StoreLocked(f"{target} is being made by another process ({error}); wait for it") from error
    except PermissionError as error:
        raise StoreReadOnly(unfinished.parent, error) from error
    try:
        _empty(unfinished)
        result = unfinished / _RESULT
        result.mkdir()
        yield result
        sync_tree(result)
        _publish(result, target)
    finally:
        lock.release()
        shutil.rmtree(unfinished, ignore_errors=True)


def takes_places(folder: Path) -> bool:
    """Whether the file system of `folder` can write to any place of a file, in any order."""
    probe = folder / _PROBE
    try:
        descriptor = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, 3)
            os.pwrite(descriptor, b"c", 2)
            os.pwrite(descriptor, b"a", 0)
            return os.pread(descriptor, 3, 0) == b"a\0c"
        finally:
            os.close(descriptor)
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)


@contextmanager
def appearing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that appears when it is whole, however many do so at a time."""
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sync_tree(folder: Path) -> None:
    """Bring everything in `folder` to the disk."""
    for path, _, names in os.walk(folder):
        for name in names:
            sync_file(Path(path, name))
        sync_directory(Path(path))


def _publish(result: Path, target: Path) -> None:
    try:
        os.rename(result, target.absolute())
    except OSError as error:
        if error.errno in _NOT_EMPTY:  # somebody was faster
            raise TargetExists(target) from error
        raise
    sync_directory(target.absolute().parent)


def _empty(unfinished: Path) -> None:
    """Remove what a job left that was killed. The lock's file stays: it is ours."""
    for path in unfinished.iterdir():
        if path.name == LOCK_NAME:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
