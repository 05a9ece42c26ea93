"""A read-only view of a store's directory, which another process may own.

Nothing is locked, written or changed. Parts are opened when they are first asked for, so
that whoever reads the log alone pays for nothing else. The view is that of the moment in
which a part was opened; a new reader sees what the owner has done since.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

from embermq.clock import SystemClock
from embermq.errors import CorruptRecord, OutOfRange, StoreMissing
from embermq.files.file_chain import FileChain
from embermq.files.mapped_file import MappedFile
from embermq.files.open_files import most_mapped_files
from embermq.format.checkpoint import Checkpoint, Progress
from embermq.format.record import Record, decode_record
from embermq.log.commit_log import CommitLog
from embermq.log.key_index import KeyIndex, keys_of
from embermq.log.recovery import is_closed, scan_log
from embermq.store.checkpoint_file import CheckpointFile
from embermq.store.layout import CHECKPOINT_FILE, CONFIG_FOLDER, LOG_FOLDER, Layout, find_layout
from embermq.store.parts import TOPICS_FILE
from embermq.store.queues import BATCH_FOLDER, SIMPLE_FOLDER, Queues
from embermq.store.reading import Batch, read_queue, to_batch
from embermq.store.settings import StoreSettings
from embermq.store.topics import Topics

_SIGNS = (LOG_FOLDER, SIMPLE_FOLDER, BATCH_FOLDER, CHECKPOINT_FILE)  # one of them is in every store
_READ_BYTES = 4 * 1024 * 1024


class QueueRange(NamedTuple):
    """The offsets of one queue: [min_offset, max_offset)."""

    topic: str
    queue: int
    min_offset: int
    max_offset: int


class StoreReader:
    """The messages of one directory, for reading. Close it, or use it in a `with` block.

    Raises StoreMissing where there is no store. Files that are not as they should be raise a
    StoreError when the part they belong to is first used.
    """

    def __init__(self, path: str | os.PathLike[str], settings: StoreSettings | None = None) -> None:
        self.path = Path(path)
        self.settings = settings or StoreSettings()
        if not self.path.is_dir():
            raise StoreMissing(self.path)
        if not self.settings.log_paths and not any((self.path / sign).exists() for sign in _SIGNS):
            raise StoreMissing(self.path, f"neither {LOG_FOLDER}/ nor {SIMPLE_FOLDER}/ is in it")

    @cached_property
    def layout(self) -> Layout:
        return find_layout(self.path, self.settings)

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """The log's files, the unused ones at its end included."""
        return self._log.chain.files

    @property
    def begin(self) -> int:
        """The first position of the log."""
        return self._log.chain.begin

    @cached_property
    def end(self) -> int:
        """Where the whole records of the log end."""
        return scan_log(self._log.chain, self._find_whole(), is_ours=self.progress is not None).end

    @property
    def checkpoint(self) -> Checkpoint:
        return self._checkpoint.checkpoint

    @property
    def progress(self) -> Progress | None:
        """How far queues and index were on disk at the checkpoint, if EmberMQ wrote it."""
        return self._checkpoint.progress

    @property
    def is_clean(self) -> bool:
        """Whether the last owner closed the store; not so while one works on it."""
        return not self.layout.abort_file.exists()

    def topics(self) -> list[str]:
        """The topics that are configured or have a queue."""
        return sorted({*self._topics.names(), *(topic for topic, _, _ in self._queues.items())})

    def queues(self) -> list[QueueRange]:
        """Every queue with its offsets, by topic and number."""
        return [
            QueueRange(topic, queue, each.min_offset, each.max_offset) for topic, queue, each in self._queues.items()
        ]

    def iter_records(self, begin: int | None = None, end: int | None = None) -> Iterator[Record]:
        """The records that begin in [begin, end), in the order of the log; all of them unless told.

        `begin` must be where a record begins. Raises CorruptRecord, for damage before the end too.
        """
        begin = self.begin if begin is None else max(begin, self.begin)
        end = self.end if end is None else min(end, self.end)
        while begin < end and (data := self._log.chain.select_rest(begin)) is not None:
            at = 0
            while begin + at < end and not is_closed(data, at, len(data)):
                record = decode_record(data[at:], begin + at)
                yield record
                at += record.size
            begin = self._log.next_file_start(begin)

    def read(self, topic: str, queue: int, offset: int, *, limit: int = 32, max_bytes: int = _READ_BYTES) -> Batch:
        """Messages of a queue from `offset` on; the batch tells where to go on. Raises CorruptRecord."""
        found = self._queues.find(topic, queue)
        records = read_queue(found, self._log, offset, limit=limit, max_bytes=max_bytes)
        return to_batch(records, self._log, topic=topic, queue=queue)

    def find(self, topic: str, key: str, *, limit: int = 32) -> list[Record]:
        """The newest `limit` records of `topic` with this key, or with it as unique key; newest first."""
        found: dict[int, Record] = {}
        for position in self._index.iter_positions(topic, key):
            if len(found) == limit:
                break
            try:
                record = self._log.read(position)
            except (OutOfRange, CorruptRecord):  # expired, or for `ember store verify` to report
                continue
            if record.topic == topic and key in keys_of(record.properties):
                found[position] = record
        return list(found.values())

    def load_topics(self) -> Topics:
        """The table of topics as it is now."""
        return Topics(self.path / CONFIG_FOLDER / TOPICS_FILE, clock=SystemClock(), default_queues=1, auto_create=False)

    def close(self) -> None:
        """Let go of the files; what was read stays readable."""
        opened = self.__dict__
        if "_queues" in opened:
            self._queues.close()
        if "_index" in opened:
            self._index.close()
        if "_log" in opened:
            self._log.chain.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _log(self) -> CommitLog:
        layout = self.layout
        chain = FileChain(
            layout.log_paths, layout.log_file_size, read_only=True, read_only_paths=layout.read_only_log_paths
        )
        chain.load()
        return CommitLog(chain, store_host=b"", clock=SystemClock())

    @cached_property
    def _checkpoint(self) -> CheckpointFile:
        return CheckpointFile(self.layout.checkpoint_file)

    @cached_property
    def _topics(self) -> Topics:
        return Topics(self.layout.config_folder / TOPICS_FILE, clock=SystemClock(), default_queues=1, auto_create=False)

    @cached_property
    def _queues(self) -> Queues:
        sizes, kind_of = self.layout.queue_sizes, self._topics.kind_of
        queues = Queues(self.path, sizes, kind_of=kind_of, read_only=True, most_files=most_mapped_files())
        try:
            queues.load()
            queues.correct_min(self.begin)
        except BaseException:
            queues.close()
            raise
        return queues

    @cached_property
    def _index(self) -> KeyIndex:
        layout = self.layout
        index = KeyIndex(
            layout.index_folder,
            slots=layout.index_slots,
            entries=layout.index_entries,
            clock=SystemClock(),
            read_only=True,
        )
        index.load()
        return index

    def _find_whole(self) -> int:
        """A position up to which the log is known to be whole, so that its end is found without reading it all."""
        last, progress = self._queues.last_entry(), self.progress
        if last is None:
            is_there = progress is not None and self.begin <= progress.position <= self._log.chain.end
            return progress.position if progress and is_there else self.begin
        try:
            return last.position + last.size if self._log.read(last.position).size == last.size else self.begin
        except (OutOfRange, CorruptRecord):
            return self.begin
