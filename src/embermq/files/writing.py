"""Writing through a descriptor: a full disk is an error there, where a map would bring a signal."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

HEAD = 8  # bytes that one instruction writes, so that they are there or not

_DSYNC = getattr(os, "RWF_DSYNC", None)  # Linux


def write_whole(descriptor: int, data: bytes | bytearray | memoryview, at: int) -> None:
    """Write all of `data` at byte `at` of the file, in as many pieces as the system makes of it."""
    with memoryview(data) as rest:
        done = 0
        while done < len(rest):
            done += os.pwrite(descriptor, rest[done:], at + done)


def write_head_last(descriptor: int, data: bytes | bytearray | memoryview, at: int, *, head: int) -> None:
    """Write all of `data` at byte `at` of the file, its first `head` bytes after everything else."""
    with memoryview(data) as whole:
        write_whole(descriptor, whole[head:], at + head)
        write_whole(descriptor, whole[:head], at)


def write_synced(descriptor: int, pieces: Sequence[memoryview], at: int, *, head: int) -> None:
    """Write `pieces` one behind the other from byte `at` on, and return when the disk has them.

    Their first `head` bytes come after everything else, as in `write_head_last`: all the rest is written first,
    without waiting, and then again with the head; what a killed process leaves is then without its head or whole.
    Only what was written is waited for, not what else was changed in the file. Raises OSError; then any of it may be
    there or not.
    """
    _write_pieces(descriptor, _behind(pieces, head), at + head, 0)
    if _DSYNC is not None:
        try:
            _write_pieces(descriptor, pieces, at, _DSYNC)
            return
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
    _write_pieces(descriptor, pieces, at, 0)
    os.fdatasync(descriptor)


def _write_pieces(descriptor: int, pieces: Sequence[memoryview], at: int, flags: int) -> None:
    while pieces:
        done = os.pwritev(descriptor, pieces, at, flags)
        if done == 0:
            raise OSError(errno.EIO, "nothing was written")
        at += done
        pieces = _behind(pieces, done)


def _behind(pieces: Sequence[memoryview], count: int) -> list[memoryview]:
    """What follows the first `count` bytes."""
    rest: list[memoryview] = []
    for piece in pieces:
        if count < len(piece):
            rest.append(piece[count:])
        count = max(0, count - len(piece))
    return rest
