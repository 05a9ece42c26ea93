"""Files of a compacted topic: records of one queue in a log of their own, and a sparse queue that says where.

    compaction/compactionLog/<topic>/<queue>/<20 digits>    records, their position rewritten to their place here
    compaction/compactionCq/<topic>/<queue>/<20 digits>     46-byte entries; the name is that of the log file
    compaction/position-checkpoint                          up to which offset each queue was compacted

Log and queue files come in pairs. A pair is full when the next record, and 8 bytes, do not fit into the log file, or
when one place is left in the queue file: then a BLANK record and an end mark close them. Offsets in a queue rise and
have gaps. The files that compaction has made begin at 0 again and end with zeros; the last pair, which it leaves
alone, keeps its name. So names do not follow each other, and each file is read for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from embermq.errors import CorruptRecord
from embermq.format.batch_entry import BATCH_ENTRY, BATCH_ENTRY_SIZE, END_MARK, BatchEntry, encode_batch_entry
from embermq.format.json_fields import parse_fields, read_integer
from embermq.format.queue_entry import tags_code
from embermq.format.record import BLANK_SIZE, Record, encode_blank, scan_record
from embermq.format.tables import encode_table
from embermq.model.properties import KEYS, TAGS, find_property

COMPACTION_FOLDER: Final = "compaction"
COMPACTED_LOG_FOLDER: Final = "compactionLog"
COMPACTED_QUEUE_FOLDER: Final = "compactionCq"
COMPACTING_FOLDER: Final = "compacting"  # inside of both: files that are being made
POSITIONS_FILE: Final = "position-checkpoint"
DEFAULT_LOG_SIZE: Final = 100 * 1024 * 1024
DEFAULT_QUEUE_SIZE: Final = 10 * 1024 * 1024

_POSITION_AT: Final = 28  # of a record's own position in its bytes
_LEAST_FACTOR: Final = 5  # of the sizes of log and queue files
_END: Final = encode_batch_entry(END_MARK)
_NO_ENTRY: Final = bytes(BATCH_ENTRY_SIZE)


def compacted_queue_size(asked: int) -> int:
    """The size of queue files where `asked` bytes are set: a whole number of entries."""
    return max(asked // BATCH_ENTRY_SIZE, 2) * BATCH_ENTRY_SIZE


def compacted_log_size(asked: int, queue_size: int) -> int:
    """The size of log files: a multiple of that of queue files, near `asked`."""
    factor, rest = divmod(asked, queue_size)
    if factor < _LEAST_FACTOR:
        return _LEAST_FACTOR * queue_size
    return factor * queue_size if 0 < rest < queue_size // 2 else (factor + 1) * queue_size


def moved(record: bytes | memoryview, position: int) -> bytes:
    """The bytes of a record, which says that it lies at `position`."""
    data = bytes(record)
    return data[:_POSITION_AT] + position.to_bytes(8, "big") + data[_POSITION_AT + 8 :]


def entry_of(record: bytes | memoryview, position: int) -> BatchEntry:
    """The queue entry of a record that lies at `position`. Raises CorruptRecord."""
    own = int.from_bytes(record[_POSITION_AT : _POSITION_AT + 8], "big")
    found = scan_record(memoryview(record), 0, own, check_body=False)
    if found is None:
        raise CorruptRecord(position, "no record")
    tags = find_property(found.properties, TAGS.encode())
    code = tags_code(tags.decode()) if tags else 0
    return BatchEntry(position, found.size, code, found.store_time, found.offset, 1)


def keys_of(record: Record) -> str:
    """What a message is compacted by: all of its keys, as one text."""
    return record.property_map().get(KEYS, "")


def is_kept(offset: int, newest: int | None, *, has_body: bool, last_offset: int) -> bool:
    """Whether compaction keeps the message at `offset`, when the newest one with its keys is at `newest`.

    What came behind `last_offset` was not looked at, and is kept. One without a body deletes its keys.
    """
    return offset > last_offset or ((newest is None or offset >= newest) and has_body)


def pair_has_room(used: int, count: int, size: int, *, log_size: int, queue_size: int) -> bool:
    """Whether a record of `size` bytes fits behind `count` others of `used` bytes, and what closes both files."""
    is_queue_full = (count + 1) * BATCH_ENTRY_SIZE >= queue_size
    return used + size + BLANK_SIZE <= log_size and not is_queue_full


@dataclass(slots=True)
class FilePair:
    """A log file and its queue file, while they are made. `start` is the number both are named after."""

    start: int
    log_size: int
    queue_size: int
    records: list[bytes] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)
    size: int = 0

    def has_room(self, size: int) -> bool:
        """Whether a record of so many bytes fits, and what closes both files behind it."""
        return pair_has_room(self.size, len(self.entries), size, log_size=self.log_size, queue_size=self.queue_size)

    def add(self, record: bytes | memoryview) -> None:
        """Add a record, for which there must be room. Raises CorruptRecord."""
        entry = entry_of(record, self.start + self.size)
        self.add_known(record, code=entry.tags_code, store_time=entry.store_time, offset=entry.base_offset)

    def add_known(self, record: bytes | memoryview, *, code: int, store_time: int, offset: int) -> None:
        """Add a record, for which there must be room, and of which this is known."""
        position = self.start + self.size
        self.entries.append(encode_batch_entry(BatchEntry(position, len(record), code, store_time, offset, 1)))
        self.records.append(moved(record, position))
        self.size += len(record)

    def log_parts(self, *, is_closed: bool) -> list[bytes]:
        """What the log file begins with; one that is closed says so, another ends with zeros."""
        return [*self.records, *([encode_blank(self.log_size - self.size)] if is_closed else [])]

    def queue_parts(self, *, is_closed: bool) -> list[bytes]:
        """The same of the queue file."""
        return [*self.entries, *([_END] if is_closed else [])]


def iter_compacted_entries(data: memoryview | bytes) -> Iterator[BatchEntry]:
    """The entries of one queue file, up to its end mark or to what was never written."""
    for at in range(0, len(data) - BATCH_ENTRY_SIZE + 1, BATCH_ENTRY_SIZE):
        if data[at : at + BATCH_ENTRY_SIZE] == _NO_ENTRY:
            return
        entry = BatchEntry._make(BATCH_ENTRY.unpack_from(data, at))
        if not entry.is_valid:
            return
        yield entry


def decode_compacted_positions(data: str | bytes) -> dict[str, int]:
    """Up to which offset queues were compacted, by `<topic>_<queue>`. Raises CorruptRecord."""
    fields = parse_fields(data, POSITIONS_FILE)
    return {name: read_integer(value, name) for name, value in fields.items("queueOffsetMap")}


def encode_compacted_positions(positions: Mapping[str, int]) -> bytes:
    return encode_table({"empty": not positions, "queueOffsetMap": dict(positions)})


def pair_folders(folder: Path, topic: str, queue: int) -> tuple[Path, Path]:
    """Where the log files and the queue files of a queue are, in the folder of all compacted ones."""
    place = Path(topic, str(queue))
    return folder / COMPACTED_LOG_FOLDER / place, folder / COMPACTED_QUEUE_FOLDER / place


def position_key(topic: str, queue: int) -> str:
    return f"{topic}_{queue}"
