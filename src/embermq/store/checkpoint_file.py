"""The checkpoint file: how far log, queues and index are known to be on disk."""

from __future__ import annotations

import os
from pathlib import Path

from embermq.errors import DiskFailed
from embermq.files.durable import sync_directory
from embermq.format.checkpoint import (
    CHECKPOINT_SIZE,
    Checkpoint,
    Progress,
    decode_checkpoint,
    decode_progress,
    encode_page,
)


class CheckpointFile:
    """Reads and rewrites the one page of `path`. Its fields fit into one sector each, so it is written in place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        page = path.read_bytes()[:CHECKPOINT_SIZE] if path.is_file() else b""
        page = page.ljust(CHECKPOINT_SIZE, b"\0")
        self.checkpoint: Checkpoint = decode_checkpoint(page)
        self.progress: Progress | None = decode_progress(page)

    def save(self, checkpoint: Checkpoint, progress: Progress) -> None:
        """Write both and bring them to the disk. What they promise must be on disk before. Raises DiskFailed."""
        try:
            self._write(encode_page(checkpoint, progress))
        except OSError as error:
            raise DiskFailed(self._path, error) from error
        self.checkpoint, self.progress = checkpoint, progress

    def _write(self, page: bytes) -> None:
        made = not self._path.exists()
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(descriptor, page, 0)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        if made:
            sync_directory(self._path.parent)
