"""What the tests of queues share: records, the entries they give, and a disk without space."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from embermq.format.queue_entry import ENTRY, PRE_BLANK, QUEUE_ENTRY_SIZE, QueueEntry
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.placed import Placed
from tests.builders import a_placed

PER_FILE = 10
BLANK = QueueEntry(*ENTRY.unpack(PRE_BLANK))


def items(begin: int, end: int, *, tags_code: int = 7) -> list[Placed]:
    """Records of 100 bytes, of which the one with offset n lies at position 100 n."""
    return [a_placed(offset, 100 * offset, tags_code=tags_code) for offset in range(begin, end)]


def entries(begin: int, end: int, *, tags_code: int = 7) -> list[QueueEntry]:
    """What a queue keeps of them."""
    return [QueueEntry(100 * offset, 100, tags_code) for offset in range(begin, end)]


def file_starts(folder: Path) -> list[int]:
    """The positions that the files of a queue are named after."""
    return sorted(int(path.name) for path in folder.iterdir()) if folder.exists() else []


def content(folder: Path) -> bytes:
    """All bytes of a queue's files."""
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def refuse_space(patch: pytest.MonkeyPatch, *, after: int = 0) -> None:
    """Let the disk be full after that many more reservations."""
    left = iter(range(after))
    real = os.posix_fallocate

    def reserve(descriptor: int, offset: int, size: int) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor, offset, size)

    patch.setattr(os, "posix_fallocate", reserve)


class Opener:
    """Opens one folder as a consume queue, again and again, and closes all of them in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[ConsumeQueue] = []

    def __call__(self, *, per_file: int = PER_FILE, read_only: bool = False) -> ConsumeQueue:
        size = per_file * QUEUE_ENTRY_SIZE
        queue = ConsumeQueue(self.folder, "orders", 3, file_size=size, read_only=read_only)
        self._opened.append(queue)
        queue.load()
        return queue

    def damage(self, offset: int, data: bytes) -> None:
        """Write over the entry of `offset` behind the back of all queues."""
        path = self.folder / f"{offset // PER_FILE * PER_FILE * QUEUE_ENTRY_SIZE:020d}"
        with path.open("r+b") as file:
            file.seek(offset % PER_FILE * QUEUE_ENTRY_SIZE)
            file.write(data)

    def close(self) -> None:
        for queue in self._opened:
            queue.close()
