"""The RocksDB that consume queues are kept in, where they are no files. What its keys mean: format/queue_database.py.

Written as RocketMQ writes it: without a journal, because the log is one; what was written since the last flush is
dispatched again after a crash. Both column families are flushed together, so what is found then was true at one time.
The settings of tables are those that RocketMQ 5.3.3's RocksDB reads. Memory is bounded by those of buffers and cache.

Only loaded where rocksdict is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from embermq.errors import DiskFailed, StoreLocked, SyncFailed
from embermq.format.queue_database import BOUNDS

MIB: Final = 1 << 20
_TABLE_FORMAT: Final = 5  # the newest that RocketMQ's RocksDB 8.4 reads
_BLOOM_BITS: Final = 16
_BUFFER: Final = 16 * MIB  # of a column family, before it is written to a file
_BUFFERS: Final = 2
_CACHE: Final = 32 * MIB
_MOST_FILES: Final = 256
_JOBS: Final = 2
_LOGS: Final = 2

Pair = tuple[bytes, bytes]


class QueueDatabase:
    """An open database. One thread writes, any number may read."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """Open it; a missing one is made. Raises StoreLocked and DiskFailed."""
        self._folder = folder
        cache = Cache(_CACHE)
        access = AccessType.read_only() if read_only else AccessType.read_write()
        families = {BOUNDS: _options(cache)}
        try:
            self._units: Any = Rdict(str(folder), _options(cache), column_families=families, access_type=access)
            self._bounds: Any = self._units.get_column_family(BOUNDS)
        except Exception as error:  # rocksdict has no class of its own for what RocksDB says
            if "lock" in str(error).lower():
                raise StoreLocked(f"{folder} is open elsewhere ({error}); end who has it first") from error
            raise DiskFailed(folder, OSError(f"the queues' database cannot be opened: {error}")) from error
        self._writing = WriteOptions()
        self._writing.disable_wal = True  # type: ignore[method-assign, assignment]  # a property, whatever its stub says

    def find_unit(self, key: bytes) -> bytes | None:
        found: bytes | None = self._units.get(key)
        return found

    def find_bound(self, key: bytes) -> bytes | None:
        found: bytes | None = self._bounds.get(key)
        return found

    def units(self, begin: bytes, end: bytes) -> Iterator[Pair]:
        """Keys and values from `begin` on, before `end`."""
        for key, value in self._units.items(from_key=begin):
            if key >= end:
                return
            yield key, value

    def last_unit(self, begin: bytes, end: bytes) -> Pair | None:
        """The last key, and its value, from `begin` on and before `end`."""
        for key, value in self._units.items(backwards=True, from_key=end):
            if key != end:
                return (key, value) if key >= begin else None
        return None

    def bounds(self, begin: bytes = b"") -> Iterator[Pair]:
        yield from self._bounds.items(from_key=begin)

    def write(self, units: Iterable[Pair], bounds: Iterable[Pair], *, gone: Iterable[Pair] = ()) -> None:
        """Put all of it at once, and before it delete the units of the ranges `gone`. Raises DiskFailed."""
        batch, family = WriteBatch(raw_mode=True), self._units.get_column_family_handle(BOUNDS)
        for begin, end in gone:
            batch.delete_range(begin, end)
        for key, value in units:
            batch.put(key, value)
        for key, value in bounds:
            batch.put(key, value, family)
        self._write(batch)

    def forget(self, bounds: Iterable[bytes], gone: Iterable[Pair]) -> None:
        """Delete bounds, and the units of the ranges `gone`. Raises DiskFailed."""
        batch, family = WriteBatch(raw_mode=True), self._units.get_column_family_handle(BOUNDS)
        for begin, end in gone:
            batch.delete_range(begin, end)
        for key in bounds:
            batch.delete(key, family)
        self._write(batch)

    def flush(self) -> None:
        """Bring all that was written before onto the disk. Raises SyncFailed."""
        try:
            self._units.flush(True)  # first: a bound on disk whose unit is not would lead nowhere
            self._bounds.flush(True)
        except Exception as error:
            raise SyncFailed(self._folder, OSError(str(error))) from error

    def close(self) -> None:
        """Let it go. Flush first."""
        self._bounds.close()
        self._units.close()

    def _write(self, batch: WriteBatch) -> None:
        try:
            self._units.write(batch, self._writing)
        except Exception as error:
            raise DiskFailed(self._folder, OSError(str(error))) from error


def _options(cache: Cache) -> Options:
    tables = BlockBasedOptions()
    tables.set_format_version(_TABLE_FORMAT)
    tables.set_bloom_filter(_BLOOM_BITS, False)
    tables.set_block_cache(cache)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_block_based_table_factory(tables)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(_BUFFER)
    options.set_max_write_buffer_number(_BUFFERS)
    options.set_atomic_flush(True)
    options.set_max_open_files(_MOST_FILES)
    options.set_max_background_jobs(_JOBS)
    options.set_keep_log_file_num(_LOGS)
    return options
