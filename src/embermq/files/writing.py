"""Writing through a descriptor: a full disk is an error there, where a map would bring a signal."""

from __future__ import annotations

import os


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
