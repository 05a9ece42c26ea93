"""What a rebuild reads: the log, and what the store knows besides of topics and file sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from embermq.errors import EmberError, StoreError
from embermq.jobs.log_end import find_end, open_chain
from embermq.jobs.log_ranges import LogRange, RangeWalk
from embermq.jobs.places import make_absolute
from embermq.jobs.rebuild_tasks import Kinds
from embermq.log.index_keys import keys_of
from embermq.log.queue_kind import QueueKind
from embermq.model.delay import parse_delay_levels
from embermq.store.layout import DEFAULT_INDEX_ENTRIES, DEFAULT_INDEX_SLOTS, Layout, find_layout
from embermq.store.queues import EXTENDED_FOLDER
from embermq.store.reader import StoreReader
from embermq.store.settings import StoreSettings
from embermq.store.verify_files import Segment

_SAMPLE_SIZE: Final = 256 << 10  # bytes of each of some files that are looked at
_SAMPLED_FILES: Final = 8
_SPARE: Final = 64 << 20  # room for what has a size of its own: the slots of an index, ends of files
_MARGIN: Final = 1.25
_ENTRY_SIZE: Final = 20  # of queues and of the index
_STAGED_KEY_SIZE: Final = 24


class Source(NamedTuple):
    """The log that is read, and what is known of the store besides."""

    root: Path
    layout: Layout
    segments: list[Segment]
    end: int  # of the log
    kinds: Kinds
    delay_levels: tuple[int, ...]

    @property
    def begin(self) -> int:
        """The first position of the log."""
        return self.segments[0].start if self.segments else self.end

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return max(self.end - self.begin, 0)


def open_source(root: Path, settings: StoreSettings | None = None) -> Source:
    """Look at a store, whoever owns it.

    Raises StoreMissing, and what opening the store would raise for log files that are not as they should be.
    """
    root, settings = make_absolute(root, settings)
    with StoreReader(root, settings) as reader:
        kinds = _find_kinds(reader)
    layout = _find_layout(root, settings)
    chain = open_chain(layout)
    try:
        segments = [Segment(file.path, file.start, file.size) for file in chain.files]
        end = find_end(chain, layout)
    finally:
        chain.close()
    levels = parse_delay_levels(settings.delay_levels)
    return Source(root, layout, [each for each in segments if each.start < end], end, kinds, levels)


def estimate_room(source: Source) -> int:
    """How many bytes a rebuild may take, with what it keeps meanwhile: by a look at some of the records."""
    step = max(len(source.segments) // _SAMPLED_FILES, 1)
    size = records = keys = 0
    for segment in source.segments[::step]:
        limit = min(segment.start + segment.size, source.end)
        part = LogRange(
            str(segment.path),
            segment.start,
            segment.size,
            segment.start,
            min(segment.start + _SAMPLE_SIZE, limit),
            limit,
        )
        for piece in RangeWalk(part, delay_levels=source.delay_levels).iter_pieces(lambda _: None):
            for item in (piece[number] for number in range(len(piece))):
                size, records, keys = size + item.size, records + 1, keys + len(keys_of(item.properties))
    each = records * _ENTRY_SIZE + keys * (_ENTRY_SIZE + _STAGED_KEY_SIZE)
    return _SPARE + int(source.size * each / size * _MARGIN) if size else _SPARE


def _find_layout(root: Path, settings: StoreSettings) -> Layout:
    try:
        return find_layout(root, settings)
    except StoreError:  # an index that is broken does not tell its shape
        slots = settings.index_slots or DEFAULT_INDEX_SLOTS
        entries = settings.index_entries or DEFAULT_INDEX_ENTRIES
        return find_layout(root, replace(settings, index_slots=slots, index_entries=entries))


def _find_kinds(reader: StoreReader) -> Kinds:
    """Which topics there are; all of them, and simple, if their table is lost."""
    has_extended = reader.settings.extended_queues or _has_files(reader.path / EXTENDED_FOLDER)
    try:
        topics = reader.load_topics()
    except (EmberError, ValueError, OSError):
        return Kinds(None, frozenset(), has_extended)
    names = frozenset(topics.names())
    batch = frozenset(name for name in names if topics.kind_of(name) is QueueKind.BATCH)
    return Kinds(names or None, batch, has_extended)


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(path.is_file() for path in folder.rglob("*"))
