"""The usual way of a table into the log: one call of a kernel for records, queue entries and index.

Usual is: all records fit into the last file. Everything else is for table_append.py, and whatever the kernel leaves
undone is for the dispatcher. Only loaded where kernels are.
"""

from __future__ import annotations

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
from embermq.log.queue_table import QueueTable
from embermq.log.record_batch import RecordBatch
from embermq.log.table_append import LARGEST_HEAD, DraftTable, Piece, TableAppended

_LEAST_ROOM = 512  # records


class QuickAppend:
    """Appends tables to one log. Used by the one writer thread."""

    def __init__(self, commit_log: CommitLog, numbers: QueueTable, index: KeyIndex | None) -> None:
        self._commit_log = commit_log
        self._table = numbers
        self._index = index
        self._job: Table = np.zeros(job.JOB_SIZE, np.int64)
        self._numbers = self._job.data  # quicker than numpy to read and write one by one
        self._numbers[job.NUMBERS] = numbers.address
        self._numbers[job.NUMBERS_SIZE] = len(numbers.numbers)
        self._suffix = b""
        self._spare: tuple[Table, Table] | None = None

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
        store_time = commit_log.next_store_time()
        self._fill(table, file, at, address + at, most - BLANK_SIZE, store_time, is_visible=is_visible)
        if is_visible:
            self._offer_index(count * KEYS_PER_RECORD)
        records = np.empty((count, RECORD_WIDTH), np.int64)
        codes = np.empty(count, np.int64)
        spare = places, keys = self._take_spare(count)
        written = store_drafts(
            self._job, table.drafts, table.topics, table.hosts, table.queues, records, places, codes, keys
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
            batch = RecordBatch(found, self._table, places)
            batch.entered = numbers[job.ENTERED]
        return TableAppended(
            [Piece(begin, begin + used, address + at, data, records, batch)], records, store_time, None
        )

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
        if numbers[job.ENTERED] < numbers[job.WRITTEN]:
            return False
        return self._index is None or numbers[job.INDEXED] == numbers[job.KEYS]

    def _fill(
        self, table: DraftTable, file: MappedFile, at: int, target: int, room: int, store_time: int, *, is_visible: bool
    ) -> None:
        numbers = self._numbers
        if table.suffix is not self._suffix:
            self._suffix = table.suffix  # kept, because its address is
            numbers[job.SUFFIX], numbers[job.SUFFIX_SIZE] = address_of(table.suffix), len(table.suffix)
        numbers[job.SOURCE], numbers[job.SOURCE_SIZE] = table.source, table.source_size
        numbers[job.TEXTS], numbers[job.TEXTS_SIZE] = table.texts, table.texts_size
        numbers[job.STORE_HOST], numbers[job.STORE_TIME] = table.store_host, store_time
        numbers[job.POSITION], numbers[job.TARGET], numbers[job.TARGET_SIZE] = file.start + at, target, room
        numbers[job.WRITTEN_CELL] = file.written_cell.address if is_visible else 0
        numbers[job.WRITTEN_BEFORE] = at

    def _offer_index(self, count: int) -> None:
        """Tell where `count` keys may be put."""
        numbers = self._numbers
        numbers[job.INDEX_ROOM] = -1
        if self._index is None:
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
