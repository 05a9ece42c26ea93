"""Staged messages on disk: beside the log, in files that RocketMQ passes over, until they are published or expire.

    staged/<job>/<task>.chunks     what one task staged, chunk by chunk
    staged/<job>/manifest.json     the job's newest batch: see staged_manifests.py

A chunk that a crash has torn counts for nothing and is written anew; its sender had no answer for it.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Final

from embermq.errors import CorruptRecord, IllegalField, IllegalMessage, StagedFull, StagedMissing
from embermq.files.durable import make_directory, sync_directory
from embermq.format.staged import (
    CHUNK_HEAD,
    MAX_CHUNK_SIZE,
    Chunk,
    KeptChunk,
    check_chunk,
    decode_chunk,
    decode_chunk_head,
    encode_chunk_head,
    keep_drafts,
    make_chunk,
)
from embermq.model.staged import StagedTask
from embermq.store.state import refusal_of

log = logging.getLogger(__name__)

STAGED_FOLDER: Final = "staged"
CHUNKS_SUFFIX: Final = ".chunks"


@dataclass(slots=True)
class _Found:
    """What the file of a task holds."""

    size: int = 0  # of its whole chunks
    chunks: int = 0
    messages: int = 0
    last: Chunk | None = None
    topics: set[bytes] = field(default_factory=set)

    def add(self, chunk: Chunk, topics: Iterable[bytes]) -> None:
        self.size += CHUNK_HEAD.size + chunk.size
        self.chunks += 1
        self.messages += chunk.messages
        self.last = chunk
        self.topics.update(topics)


class StagedFiles:
    """The files of all tasks. One thread uses them; `sync` alone may run in another."""

    def __init__(self, root: Path, *, max_bytes: Callable[[], int]) -> None:
        self.root = root
        self._max_bytes = max_bytes
        self._found: dict[Path, _Found] = {}  # what is known of files that were used since the start
        self.bytes = sum(path.stat().st_size for path in self._iter_files())

    def append(self, job: str, task: str, sequence: int, kept: KeptChunk) -> None:
        """Keep the chunk of this number; one that is there already changes nothing.

        Raises IllegalField for a number that leaves a gap, StagedFull, and a StoreUnwritable.
        """
        path = self._path(job, task)
        found = self._find(path) or _Found()
        data = kept.data
        if len(data) > MAX_CHUNK_SIZE:
            raise IllegalMessage(f"a chunk of {len(data)} bytes, limit {MAX_CHUNK_SIZE}; stage fewer messages at once")
        is_last = 0 <= sequence == found.chunks - 1
        if not is_last and sequence != found.chunks:
            raise _out_of_order(task, sequence, found)
        chunk = make_chunk(sequence, kept.messages, data)
        if is_last:
            if chunk == found.last:
                return  # its answer was lost
            raise _out_of_order(task, sequence, found)
        size = CHUNK_HEAD.size + len(data)
        if self.bytes + size > self._max_bytes():
            raise StagedFull(self.root, size=size, held=self.bytes, limit=self._max_bytes())
        self._write(path, found.size, [encode_chunk_head(chunk), data])
        self.bytes += size
        found.add(chunk, kept.topics)
        self._found[path] = found

    def check(self, job: str, tasks: Iterable[StagedTask]) -> set[bytes]:
        """The topics of tasks that are all there, whole. Raises StagedMissing."""
        topics: set[bytes] = set()
        for task in tasks:
            found = self._find(self._path(job, task.name)) or _Found()
            if (found.chunks, found.messages) != task[1:]:
                raise StagedMissing(job, task.name, found=(found.chunks, found.messages), expected=task[1:])
            topics |= found.topics
        return topics

    def sync(self, job: str, tasks: Iterable[StagedTask]) -> None:
        """Bring the files of tasks to the disk. Raises a StoreUnwritable."""
        folder = self.root / job
        try:
            for task in tasks:
                descriptor = os.open(self._path(job, task.name), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            for each in (folder, self.root, self.root.parent):
                sync_directory(each)
        except OSError as error:
            raise refusal_of(error, folder) from error

    def iter_chunks(self, job: str, task: str) -> Iterator[tuple[Chunk, memoryview]]:
        """What a task staged, one chunk at a time, as it was kept; each is good until the next.

        Raises CorruptRecord where its file is damaged.
        """
        return _iter_chunks(self._path(job, task))

    def find_topics(self, job: str, task: str) -> set[bytes]:
        """The topics of what a task staged; none if there is nothing."""
        found = self._find(self._path(job, task))
        return found.topics if found else set()

    def find_tasks(self, job: str) -> list[str]:
        """The tasks of a job that have staged something."""
        return sorted(path.name.removesuffix(CHUNKS_SUFFIX) for path in (self.root / job).glob(f"*{CHUNKS_SUFFIX}"))

    def discard(self, job: str, tasks: Iterable[str]) -> None:
        """Forget what tasks staged; those that are gone already are passed over."""
        for task in tasks:
            self._delete(self._path(job, task))

    def expire(self, older_than_ms: int, *, kept: Callable[[str], set[str]]) -> int:
        """Delete what was last written before this time, but not the tasks that a job still needs; how many went."""
        expired = 0
        for path in list(self._iter_files()):
            job, task = path.parent.name, path.name.removesuffix(CHUNKS_SUFFIX)
            if path.stat().st_mtime_ns // 1_000_000 < older_than_ms and task not in kept(job):
                self._delete(path)
                expired += 1
        for folder in self.root.glob("*"):
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        return expired

    def _path(self, job: str, task: str) -> Path:
        return self.root / job / f"{task}{CHUNKS_SUFFIX}"

    def _iter_files(self) -> Iterator[Path]:
        return self.root.glob(f"*/*{CHUNKS_SUFFIX}")

    def _find(self, path: Path) -> _Found | None:
        """What the file holds; read once after a start."""
        if path not in self._found and path.exists():
            found = _Found()
            try:
                for chunk, data in _iter_chunks(path):
                    found.add(chunk, keep_drafts(decode_chunk(chunk, data)).topics)
            except CorruptRecord as torn:
                log.info("staged chunk dropped file=%s position=%d reason=%s", path, torn.position, torn.reason)
            self.bytes -= path.stat().st_size - found.size
            self._found[path] = found
        return self._found.get(path)

    def _write(self, path: Path, at: int, parts: Sequence[bytes | memoryview]) -> None:
        """Write at a place, over what a torn write left there."""
        try:
            if at == 0:
                make_directory(path.parent)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                size = os.pwritev(descriptor, parts, at)
                os.ftruncate(descriptor, at + size)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise refusal_of(error, self.root) from error
        if size != sum(map(len, parts)):
            raise refusal_of(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), self.root)

    def _delete(self, path: Path) -> None:
        found = self._found.pop(path, None)
        try:
            size = found.size if found is not None else path.stat().st_size
            path.unlink()
        except FileNotFoundError:
            return
        self.bytes -= size


def _fill(file: FileIO, place: memoryview) -> int:
    """Read as much as there is room for; how many bytes there were."""
    done = 0
    while done < len(place) and (count := file.readinto(place[done:])):
        done += count
    return done


def _out_of_order(task: str, sequence: int, found: _Found) -> IllegalField:
    return IllegalField("sequence", f"chunk {sequence} of task {task!r}, {found.chunks} is the next")


def _iter_chunks(path: Path) -> Iterator[tuple[Chunk, memoryview]]:
    """The chunks of a file, all in one memory. Raises CorruptRecord where it holds something else, or too little."""
    memory = bytearray()
    with path.open("rb", buffering=0) as file:
        at = sequence = 0
        while head := file.read(CHUNK_HEAD.size):
            chunk = decode_chunk_head(head, at)
            if len(memory) < chunk.size:
                memory = bytearray(chunk.size)
            data = memoryview(memory)[: chunk.size]
            data = data[: _fill(file, data)]
            check_chunk(chunk, data, at)
            if chunk.sequence != sequence:
                raise CorruptRecord(at, f"chunk {chunk.sequence}, {sequence} is the next")
            yield chunk, data
            at += CHUNK_HEAD.size + chunk.size
            sequence += 1
