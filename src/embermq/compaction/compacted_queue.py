"""One queue of a compacted topic: pairs of files, the last of which takes appends; read with gaps.

pair 0 (compacted)      pair 64400            pair 96600
├ 76 │ 80 │ 94 │ 95 ┤   ├ 96 │ 97 │ … │ 131 ┤ ├ 132 │ 133 │ …
                                              ↑ appends; compaction leaves this pair alone
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from embermq.compaction.choosing import Keyed, choose
from embermq.compaction.pair import Pair
from embermq.compaction.swapping import prepare, recover_swap, swap
from embermq.errors import MissingFile
from embermq.files.durable import make_directory, sync_directory
from embermq.files.paths import file_name
from embermq.format.compacted import compacted_log_size, compacted_queue_size
from embermq.format.record import decode_record
from embermq.model.properties import KEYS, find_property
from embermq.store.gathering import FoundBytes
from embermq.store.reading import LARGEST_SCAN, Accept, ReadStatus, Wanted

log = logging.getLogger(__name__)

Pace = Callable[[int], None]  # told of bytes read or written; may wait
_KEYS = KEYS.encode()
_ENTRIES_SCANNED = LARGEST_SCAN // 20


class Sizes(NamedTuple):
    """The sizes of new files."""

    log: int
    queue: int

    @classmethod
    def of(cls, log_size: int, queue_size: int) -> Sizes:
        queue = compacted_queue_size(queue_size)
        return cls(compacted_log_size(log_size, queue), queue)


class Compacted(NamedTuple):
    """What a compaction has made; `use` puts it in place."""

    old: tuple[Pair, ...]
    position: int  # the last offset that was looked at
    kept: int
    dropped: int


class CompactedQueue:
    """The records of one queue that are kept. One thread appends and swaps; any number may read."""

    def __init__(self, log_folder: Path, queue_folder: Path, sizes: Sizes) -> None:
        self._folders = (log_folder, queue_folder)
        self._sizes = sizes
        self._pairs: tuple[Pair, ...] = ()

    def load(self) -> None:
        """Find the files. Raises MissingFile for one without its other half."""
        log_folder, queue_folder = self._folders
        recover_swap(self._folders)
        names = [
            sorted(path.name for path in folder.glob("[0-9]" * 20)) if folder.is_dir() else []
            for folder in self._folders
        ]
        for name in sorted(set(names[0]) ^ set(names[1])):
            self._drop_half(name)
        both = sorted(set(names[0]) & set(names[1]))
        self._pairs = tuple(
            Pair.load(log_folder / name, queue_folder / name, is_last=name == both[-1]) for name in both
        )

    def _drop_half(self, name: str) -> None:
        """A file that was made just before a crash is empty, and goes; one with records is not to be lost."""
        half, other = (folder / name for folder in self._folders)
        if other.exists():
            half, other = other, half
        if any(half.read_bytes()):
            raise MissingFile(other)
        half.unlink()

    @property
    def is_empty(self) -> bool:
        return not any(pair.count for pair in self._pairs)

    @property
    def min_offset(self) -> int:
        """The first offset with a message; 0 when there is none."""
        return next((pair.first_offset for pair in self._pairs if pair.count), 0)

    @property
    def max_offset(self) -> int:
        """The offset behind the last message's; 0 when there is none."""
        return next((pair.next_offset for pair in reversed(self._pairs) if pair.count), 0)

    def append(self, record: bytes | memoryview) -> None:
        """Add a record with a higher offset than all before. Raises CorruptRecord, and OSError on a full disk."""
        last = self._pairs[-1] if self._pairs else None
        if last is None or last.is_closed:
            last = self._roll()
        elif not last.has_room(len(record)):
            last.close_for_good()
            last = self._roll()
        last.append(record)

    def _roll(self) -> Pair:
        log_folder, queue_folder = self._folders
        for folder in self._folders:
            make_directory(folder)
        last = self._pairs[-1] if self._pairs else None
        start = 0 if last is None else last.start + self._log_size()
        sizes = Sizes(self._log_size(), self._queue_size())
        pair = Pair.make(log_folder, queue_folder, start, log_size=sizes.log, queue_size=sizes.queue)
        for folder in (queue_folder, log_folder):
            sync_directory(folder)
        self._pairs = (*self._pairs, pair)
        return pair

    def _log_size(self) -> int:
        return self._pairs[0].log.size if self._pairs else self._sizes.log

    def _queue_size(self) -> int:
        return self._pairs[0].queue.size if self._pairs else self._sizes.queue

    def read(
        self, offset: int, *, limit: int, max_bytes: int, accept: Accept | None = None, wanted: Wanted | None = None
    ) -> FoundBytes:
        """Records from `offset` on, or from the next one there is: at most so many and so large, but one at least."""
        low, high = self.min_offset, self.max_offset
        if high == 0:
            return FoundBytes(ReadStatus.EMPTY, 0, 0, 0)
        if offset == high:
            return FoundBytes(ReadStatus.AT_END, offset, low, high)
        if offset > high:
            return FoundBytes(ReadStatus.BEYOND, low if low == 0 else high, low, high)
        parts: list[memoryview] = []
        next_offset, size = offset, 0
        for number, (pair, index) in enumerate(self._iter_from(offset)):
            entry = pair.entry(index)
            is_enough = len(parts) >= limit or size + entry.size > max_bytes
            if (parts and is_enough) or number >= _ENTRIES_SCANNED:
                break
            next_offset = entry.base_offset + 1
            if accept is not None and not accept(entry.tags_code):
                continue
            record = pair.record(entry)
            if wanted is None or wanted.accepts(record):
                parts.append(record)
                size += entry.size
        status = ReadStatus.FOUND if parts else ReadStatus.NO_MATCH
        return FoundBytes(status, next_offset, low, high, len(parts), size, parts)

    def _iter_from(self, offset: int) -> Iterator[tuple[Pair, int]]:
        for pair in self._pairs:
            if pair.count and pair.next_offset > offset:
                for index in range(pair.find(offset), pair.count):
                    yield pair, index

    def is_due(self, position: int) -> bool:
        """Whether pairs that take no more appends have messages behind offset `position`."""
        return any(pair.count and pair.next_offset - 1 > position for pair in self._pairs[:-1])

    def compact(self, *, most_keys: int, pace: Pace) -> Compacted:
        """Write what is kept of all pairs but the last beside them. Runs in a thread of its own. Raises OSError."""
        old = self._pairs[:-1]
        kept = choose(lambda: _keyed(old, pace), sum(pair.count for pair in old), most_keys=most_keys)
        log_folder, queue_folder = prepare(self._folders)
        sizes = Sizes(old[0].log.size, old[0].queue.size)
        made: list[Pair] = []
        index = 0
        for pair in old:
            for entry, record in pair.iter_records():
                if kept[index]:
                    pace(entry.size)
                    if not made or not made[-1].has_room(entry.size):
                        if made:
                            made[-1].close_for_good()
                        start = len(made) * sizes.log
                        made.append(
                            Pair.make(log_folder, queue_folder, start, log_size=sizes.log, queue_size=sizes.queue)
                        )
                    made[-1].append(record)
                index += 1
        for each in made:
            each.sync()
            each.close()
        for folder in (log_folder, queue_folder):
            sync_directory(folder)
        position = max(pair.next_offset - 1 for pair in old if pair.count)
        return Compacted(old, position, sum(kept), len(kept) - sum(kept))

    def use(self, compacted: Compacted) -> None:
        """Put what was made in the place of what it was made of. Raises OSError."""
        log_folder, queue_folder = self._folders
        rest = self._pairs[len(compacted.old) :]
        made = sorted(path.name for path in (log_folder / "compacting").glob("[0-9]" * 20))
        swap(self._folders, [file_name(pair.start) for pair in compacted.old])
        new = tuple(Pair.load(log_folder / name, queue_folder / name, is_last=False) for name in made)
        self._pairs = (*new, *rest)
        for pair in compacted.old:
            pair.close()

    def flush(self) -> None:
        """Bring what was appended onto the disk. Raises SyncFailed."""
        for pair in self._pairs[-2:]:
            pair.flush()

    def close(self) -> None:
        for pair in self._pairs:
            pair.close()
        self._pairs = ()


def _keyed(pairs: tuple[Pair, ...], pace: Pace) -> Iterator[Keyed]:
    for pair in pairs:
        for entry, data in pair.iter_records():
            pace(entry.size)
            record = decode_record(data, entry.position, check_body=False)
            yield entry.base_offset, find_property(record.properties, _KEYS) or b"", bool(record.body)
