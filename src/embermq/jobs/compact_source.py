"""What a compaction reads: the log, the files that earlier compactions have made, and which topics are compacted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from embermq.compaction.compacted_queue import Sizes
from embermq.compaction.compacted_topics import is_compacted
from embermq.compaction.swapping import find_intent
from embermq.errors import MissingFile, NotSupported, TopicNotFound
from embermq.files.durable import read_with_backup
from embermq.files.paths import file_name
from embermq.format.compacted import (
    COMPACTED_LOG_FOLDER,
    COMPACTED_QUEUE_FOLDER,
    COMPACTION_FOLDER,
    DEFAULT_LOG_SIZE,
    DEFAULT_QUEUE_SIZE,
    POSITIONS_FILE,
    decode_compacted_positions,
    pair_folders,
)
from embermq.jobs.compact_rows import ROW_SIZE
from embermq.jobs.errors import NotCompacted
from embermq.jobs.log_ranges import LogRange, RangeWalk
from embermq.jobs.places import make_absolute
from embermq.jobs.rebuild_source import Source, open_source
from embermq.jobs.rebuild_tasks import QueueKey
from embermq.log.queue_kind import QueueKind
from embermq.store.queues import SIMPLE_FOLDER
from embermq.store.reader import StoreReader
from embermq.store.settings import StoreSettings
from embermq.store.verify_queues import ROCKSDB_SIGN

KEYS_AT_ONCE: Final = 1_000_000  # messages of a queue, or of a share of it, that a task decides about

_SAMPLE_SIZE: Final = 256 << 10
_SAMPLED_FILES: Final = 8
_SPARE: Final = 64 << 20
_MARGIN: Final = 1.25


class CompactSource(NamedTuple):
    """The store that is read."""

    store: Source
    topics: tuple[str, ...]
    shares: dict[str, int]  # that the keys of a queue are parted into, by topic
    pairs: dict[QueueKey, list[LogRange]]  # log files of earlier compactions, in the order of their names
    sizes: Sizes  # of new files
    positions: dict[str, int]  # up to where queues were compacted before
    queues: Path | None  # the folder with the queues; None if they are no files
    interrupted: tuple[QueueKey, ...]  # what an earlier compaction of these has made is not in its place yet

    @property
    def size(self) -> int:
        """Bytes that are read."""
        return self.store.size + sum(part.end - part.begin for parts in self.pairs.values() for part in parts)


def open_compact_source(
    root: Path,
    topics: Sequence[str] | None = None,
    settings: StoreSettings | None = None,
    sizes: Sizes | None = None,
) -> CompactSource:
    """Look at a store, whoever owns it. New files have the size of old ones or, where there are none, `sizes`.

    Raises StoreMissing, TopicNotFound, NotCompacted for a topic without the policy, MissingFile for half a pair.
    """
    root, settings = make_absolute(root, settings)
    store = open_source(root, settings)
    with StoreReader(root, settings) as reader:
        chosen = _choose_topics(reader, topics)
        is_plain = not (root / ROCKSDB_SIGN).is_file()
        shares = _choose_shares(reader, chosen) if is_plain else dict.fromkeys(chosen, 1)
    folder = root / COMPACTION_FOLDER
    found = [key for topic in chosen for key in _find_queues(folder, topic)]
    interrupted = tuple(key for key in found if find_intent(pair_folders(folder, *key)[0]) is not None)
    pairs = {key: _find_pairs(folder, key) for key in found if key not in interrupted}
    return CompactSource(
        store,
        chosen,
        shares,
        pairs,
        _find_sizes(folder, pairs) or sizes or Sizes.of(DEFAULT_LOG_SIZE, DEFAULT_QUEUE_SIZE),
        read_with_backup(folder / POSITIONS_FILE, decode_compacted_positions) or {},
        root / SIMPLE_FOLDER if is_plain else None,
        interrupted,
    )


def estimate_room(source: CompactSource) -> int:
    """How many bytes a compaction may take, with what it keeps meanwhile: by a look at some of the records."""
    segments, store = source.store.segments, source.store
    size = wanted = records = 0
    for segment in segments[:: max(len(segments) // _SAMPLED_FILES, 1)]:
        limit = min(segment.start + segment.size, store.end)
        end = min(segment.start + _SAMPLE_SIZE, limit)
        part = LogRange(str(segment.path), segment.start, segment.size, segment.start, end, limit)
        for piece in RangeWalk(part, delay_levels=()).iter_pieces(lambda _: None):
            for item in (piece[number] for number in range(len(piece))):
                size += item.size
                if item.topic in source.shares:
                    wanted, records = wanted + item.size, records + 1
    old = source.size - store.size
    return _SPARE + old + (int(store.size * (wanted + 2 * ROW_SIZE * records) / size * _MARGIN) if size else 0)


def _choose_topics(reader: StoreReader, names: Sequence[str] | None) -> tuple[str, ...]:
    topics = reader.load_topics()
    if names is None:
        found = tuple(name for name in topics.names() if is_compacted(topics.find(name)))
        if not found:
            raise NotCompacted(reader.path)
    else:
        found = tuple(dict.fromkeys(names))
    for name in found:
        topic = topics.find(name)
        if topic is None:
            raise TopicNotFound(name)
        if not is_compacted(topic):
            raise NotCompacted(reader.path, name)
        if topics.kind_of(name) is QueueKind.BATCH:
            raise NotSupported(f"topic {name!r} keeps batches as one record (queue.type=BatchCQ); it has no key")
    return found


def _choose_shares(reader: StoreReader, topics: Sequence[str]) -> dict[str, int]:
    """Into how many shares the keys of a queue are parted, by topic, so that those of each fit into memory."""
    counts = dict.fromkeys(topics, 0)
    for each in reader.queues():
        if each.topic in counts:
            counts[each.topic] = max(counts[each.topic], each.max_offset - each.min_offset)
    return {topic: -(-count // KEYS_AT_ONCE) or 1 for topic, count in counts.items()}


def _find_sizes(folder: Path, pairs: dict[QueueKey, list[LogRange]]) -> Sizes | None:
    """The sizes of files that are there."""
    for (topic, queue), parts in pairs.items():
        for part in parts:
            _, queue_folder = pair_folders(folder, topic, queue)
            return Sizes(part.file_size, (queue_folder / file_name(part.start)).stat().st_size)
    return None


def _find_queues(folder: Path, topic: str) -> list[QueueKey]:
    """The queues that earlier compactions have made files for."""
    numbers = {
        int(path.name)
        for name in (COMPACTED_LOG_FOLDER, COMPACTED_QUEUE_FOLDER)
        for path in (folder / name / topic).glob("*")
        if path.name.isdecimal() and path.is_dir()
    }
    return [(topic, number) for number in sorted(numbers)]


def _find_pairs(folder: Path, key: QueueKey) -> list[LogRange]:
    """The log files of a queue, each with its queue file beside it. Raises MissingFile."""
    log_folder, queue_folder = pair_folders(folder, *key)
    logs, queues = ({path.name: path for path in each.glob("[0-9]" * 20)} for each in (log_folder, queue_folder))
    for name in sorted(logs.keys() ^ queues.keys()):
        if any((logs.get(name) or queues[name]).read_bytes()):
            raise MissingFile((queue_folder if name in logs else log_folder) / name)
    ranges = []
    for name in sorted(logs.keys() & queues.keys()):
        start, size = int(name), logs[name].stat().st_size
        ranges.append(LogRange(str(logs[name]), start, size, start, start + size, start + size))
    return ranges
