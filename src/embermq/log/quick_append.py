"""The usual way into the log: one call of a kernel for records, queue entries and index.

    append   a table that is there already
    offer    a kernel takes messages from somewhere and stores them itself, several times; `taken` says what it did

Usual is: all records fit into the last file. Everything else is for table_append.py, and whatever the kernel leaves
undone is for the dispatcher. Only loaded where kernels are.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from embermq.errors import FileSealed
from embermq.files.mapped_file import MappedFile
from embermq.format.record import BLANK_SIZE
from embermq.kernels import storing as job
from embermq.kernels.columns import KEY_WIDTH, RECORD_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.found_records import KEYS_PER_RECORD, FoundRecords
from embermq.kernels.memory import address_of
from embermq.kernels.storing import store_drafts
from embermq.log.commit_log import CommitLog
from embermq.log.key_index import KeyIndex
from embermq.log.placed import Spread
from embermq.log.queue_table import QueueTable
from embermq.log.record_batch import RecordBatch
from embermq.log.table_append import LARGEST_HEAD, DraftTable, Piece, TableAppended

_LEAST_ROOM: Final = 512  # records
_OFFERED_SIZE: Final = 6 * 1024 * 1024  # bytes of the log
_OFFERED_KEYS: Final = 16_384


class StoringMemory:
    """What kernels know of records that they store, for so many at once."""

    def __init__(self, capacity: int) -> None:
        self.records: Table = np.empty((capacity, RECORD_WIDTH), np.int64)
        self.places: Table = np.empty(capacity, np.int64)
        self.codes: Table = np.empty(capacity, np.int64)
        self.keys: Table = np.empty((capacity * KEYS_PER_RECORD, KEY_WIDTH), np.int64)


class Taken(NamedTuple):
    """What a kernel stored: so many records, the first of them dispatched, their keys, and how large they are.

    `rows` are those of the queues that the dispatched ones went to, if there are few.
    It used the memory from its beginning, one record after the other, and will do so again.
    """

    memory: StoringMemory
    done: int
    stored: int
    keys: int
    spread: Spread
    rows: set[int] | None


class QuickAppend:
    """Appends to one log. Used by the one writer thread."""

    def __init__(self, commit_log: CommitLog, numbers: QueueTable, index: KeyIndex | None) -> None:
        self._commit_log = commit_log
        self._table = numbers
        self._index = index
        self.job: Table = np.zeros(job.JOB_SIZE, np.int64)
        self._numbers = self.job.data  # quicker than numpy to read and write one by one
        self._numbers[job.NUMBERS] = numbers.address
        self._numbers[job.NUMBERS_SIZE] = len(numbers.numbers)
        self._suffix = b""
        self._spare: tuple[Table, Table] | None = None
        self._offered: tuple[MappedFile, int, int] | None = None  # with where it ended, and its address

    def append(self, table: DraftTable, *, is_visible: bool) -> TableAppended | None:
        """Write the records of `table`; None, with nothing done, where this is not the way.

        Where everything before them `is_visible`, they are visible as well, as far as `entered` and `indexed` say.
        """
        commit_log, count = self._commit_log, len(table)
        file = commit_log.chain.last
        if file is None:
            return None
        at = file.written
        most = table.size + count * (LARGEST_HEAD + len(table.suffix)) + BLANK_SIZE
        if at + most > file.size:
            return None
        address = _find_address(file, at + most)
        if not address:
            return None
        store_time = self._fill(table, file, at, address, most - BLANK_SIZE, is_visible=is_visible)
        if is_visible:
            self._offer_index(count * KEYS_PER_RECORD)
        records = np.empty((count, RECORD_WIDTH), np.int64)
        codes = np.empty(count, np.int64)
        spare = places, keys = self._take_spare(count)
        written = store_drafts(
            self.job, table.drafts, table.topics, table.hosts, table.queues, records, places, codes, keys
        )
        numbers = self._numbers
        assert written == count, f"{written} of {count} records written, reason {numbers[job.REASON]}"
        used = numbers[job.WRITTEN_SIZE]
        if not is_visible or numbers[job.CODED] < count:
            file.took(used)
        elif self.is_dispatched():
            self._spare = spare
        commit_log.last_store_time = store_time
        commit_log.chain.warm_ahead()
        begin, data = file.start + at, file.view[at : at + used]
        batch = None
        if numbers[job.CODED] == count:
            found = FoundRecords(data, records, codes, keys[: numbers[job.KEYS]])
            spread = Spread(numbers[job.SMALLEST], numbers[job.LARGEST], used)
            batch = RecordBatch(found, self._table, places, spread)
            batch.entered = numbers[job.ENTERED]
        return TableAppended(
            [Piece(begin, begin + used, address + at, data, records, batch)], records, store_time, None
        )

    def offer(self, source: DraftTable) -> bool:
        """Let a kernel store messages that come from where `source` says, by `job`, which tells where there is room.

        Everything before them is visible. False where this is not the way.
        """
        file = self._commit_log.chain.last
        if file is None:
            return False
        at = file.written
        _find_address(file, min(at + _OFFERED_SIZE, file.size))
        address, end = file.offer()
        if not address:
            return False
        self._offered = file, at, address
        self._fill(source, file, at, address, end - at - BLANK_SIZE, is_visible=True)
        self._offer_index(_OFFERED_KEYS)
        return True

    def taken(self, taken: Taken) -> list[Piece]:
        """What a kernel stored since the log was offered: what is dispatched, then what is not."""
        assert self._offered is not None
        memory, done, stored, keys, spread, rows = taken
        if stored == 0:
            return []
        (file, at, address), numbers = self._offered, self._numbers
        rest = stored - done
        if rest and numbers[job.CODED] < rest:
            file.took(numbers[job.WRITTEN_SIZE])
        middle = numbers[job.WRITTEN_BEFORE]
        self._commit_log.last_store_time = numbers[job.STORE_TIME]
        self._commit_log.chain.warm_ahead()
        pieces = []
        if done:
            last_keys = numbers[job.KEYS] if rest else 0
            records, data = memory.records[:done], file.view[at:middle]
            found = FoundRecords(data, records, memory.codes[:done], memory.keys[: keys - last_keys])
            batch = RecordBatch(found, self._table, memory.places, None if rest else spread, rows)
            batch.entered = done
            pieces.append(Piece(file.start + at, file.start + middle, address + at, data, records, batch))
        if rest:
            pieces.append(self._left_piece(taken, file, middle, address))
        return pieces

    def _left_piece(self, taken: Taken, file: MappedFile, at: int, address: int) -> Piece:
        """The records that are not all dispatched; copies, because they are needed for longer."""
        (memory, done, stored, keys, *_), numbers = taken, self._numbers
        end = at + numbers[job.WRITTEN_SIZE]
        records, data = memory.records[done:stored].copy(), file.view[at:end]
        batch = None
        if numbers[job.CODED] == stored - done:
            found = FoundRecords(
                data, records, memory.codes[done:stored].copy(), memory.keys[keys - numbers[job.KEYS] : keys].copy()
            )
            batch = RecordBatch(found, self._table, memory.places[done:stored].copy())
            batch.entered = numbers[job.ENTERED]
        return Piece(file.start + at, file.start + end, address + at, data, records, batch)

    def _take_spare(self, count: int) -> tuple[Table, Table]:
        """Memory for the places and keys of so many records: the last one's, if nobody needs that any more."""
        spare, self._spare = self._spare, None
        if spare is None or len(spare[0]) < count:
            room = max(count, _LEAST_ROOM)
            spare = np.empty(room, np.int64), np.empty((room * KEYS_PER_RECORD, KEY_WIDTH), np.int64)
        return spare

    def is_dispatched(self) -> bool:
        """Whether queues and index have all of what was appended last."""
        numbers = self._numbers
        return numbers[job.ENTERED] == numbers[job.WRITTEN] and numbers[job.INDEXED] == numbers[job.KEYS]

    def _fill(self, table: DraftTable, file: MappedFile, at: int, address: int, room: int, *, is_visible: bool) -> int:
        """Tell the job where messages come from and go to; the time they are stored at."""
        numbers = self._numbers
        if table.suffix is not self._suffix:
            self._suffix = table.suffix  # kept, because its address is
            numbers[job.SUFFIX], numbers[job.SUFFIX_SIZE] = address_of(table.suffix), len(table.suffix)
        numbers[job.SOURCE], numbers[job.SOURCE_SIZE] = table.source, table.source_size
        numbers[job.TEXTS], numbers[job.TEXTS_SIZE] = table.texts, table.texts_size
        numbers[job.STORE_HOST] = table.store_host
        numbers[job.STORE_TIME] = store_time = self._commit_log.next_store_time()
        numbers[job.POSITION], numbers[job.TARGET], numbers[job.TARGET_SIZE] = file.start + at, address + at, room
        numbers[job.WRITTEN_CELL] = file.written_cell.address if is_visible else 0
        numbers[job.WRITTEN_BEFORE] = at
        return store_time

    def _offer_index(self, count: int) -> None:
        """Tell where `count` keys may be put."""
        numbers = self._numbers
        numbers[job.INDEX_ROOM] = job.NO_ROOM
        if self._index is None:
            numbers[job.INDEX_ROOM] = job.NO_INDEX
            return
        try:
            offered = self._index.offer(count)
        except OSError:  # whoever dispatches will be told
            return
        if offered is not None:
            file, numbers[job.INDEX] = offered
            numbers[job.INDEX_ROOM], numbers[job.INDEX_SIZE] = count, file.mapped.size
            numbers[job.SLOTS], numbers[job.ENTRIES] = file.slots, file.entries


def _find_address(file: MappedFile, end: int) -> int:
    """Where the file is in memory; 0 if it cannot be written there up to `end`, for whatever reason."""
    try:
        return file.address(end)
    except (OSError, FileSealed):
        return 0
