"""From drafts to records, queue entries and index in one call: what the kernels for each do, one after the other.

    drafts ─→ offsets ─→ records in log memory ─→ tags codes and keys ─┬→ entries in queue files
                                                                       └→ entries of the index file

The numbers of a call, `job`, say where all that is, and how far it came. It stops where something is for plain code;
what was done until then holds.
"""

from __future__ import annotations

from typing import Final

from embermq.kernels.columns import RECORD_SIZE
from embermq.kernels.compiling import Table, kernel, part, variable
from embermq.kernels.dispatch import find_codes_and_keys
from embermq.kernels.index_rows import put_index
from embermq.kernels.memory import fence, put
from embermq.kernels.placing import give_back_offsets, take_offsets
from embermq.kernels.queue_entries import enter_entries
from embermq.kernels.records import encode_records

# What the caller says.
(
    SOURCE, SOURCE_SIZE, TEXTS, TEXTS_SIZE, STORE_HOST, SUFFIX, SUFFIX_SIZE, STORE_TIME, POSITION, TARGET, TARGET_SIZE,
    NUMBERS, NUMBERS_SIZE, WRITTEN_CELL, WRITTEN_BEFORE, INDEX, INDEX_SIZE, INDEX_ROOM, SLOTS, ENTRIES,
) = range(20)  # fmt: skip
# What it is told.
WRITTEN, WRITTEN_SIZE, SMALLEST, LARGEST, REASON, CODED, KEYS, ENTERED, INDEXED = range(20, 29)
JOB_SIZE: Final = 29

NO_ROOM, NO_INDEX = -1, -2  # instead of the room for keys: none here, and none needed


@part
def _measure(job: Table, records: Table) -> None:
    """Tell how large the smallest and the largest record are."""
    smallest, largest = variable(2**62), variable(0)
    for number in range(len(records)):
        size = records[number, RECORD_SIZE]
        smallest, largest = min(smallest, size), max(largest, size)
    job[SMALLEST], job[LARGEST] = smallest, largest


@kernel(
    "int64(int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1],"
    " int64[::1], int64[:, ::1])"
)
def store_drafts(
    job: Table,
    drafts: Table,
    topics: Table,
    hosts: Table,
    queues: Table,
    records: Table,
    places: Table,
    codes: Table,
    keys: Table,
) -> int:
    """Store drafts, as many as there is room for at the target; how many records were written.

    Their entries and keys follow where the job has a cell that says how far the log file is written: then all before
    them is visible, and they are, too. The disk space of the index for as many entries as it says must be there.
    """
    if len(job) < JOB_SIZE:
        return 0
    for number in range(WRITTEN, JOB_SIZE):
        job[number] = 0
    numbers, numbers_size = job[NUMBERS], job[NUMBERS_SIZE]
    taken = take_offsets(drafts, queues, numbers, numbers_size, places)
    written, size, reason = encode_records(
        drafts[:taken], job[SOURCE], job[SOURCE_SIZE], job[TEXTS], job[TEXTS_SIZE], topics, hosts, job[STORE_HOST],
        job[SUFFIX], job[SUFFIX_SIZE], job[STORE_TIME], job[POSITION], job[TARGET], job[TARGET_SIZE], records,
    )  # fmt: skip
    if written < taken:
        give_back_offsets(drafts[written:taken], queues, numbers, numbers_size)
    job[WRITTEN], job[WRITTEN_SIZE], job[REASON] = written, size, reason
    if written == 0:
        return 0
    _measure(job, records[:written])
    coded, key_count, _ = find_codes_and_keys(job[TARGET], size, records[:written], -1, codes, keys)
    job[CODED], job[KEYS] = coded, key_count
    if coded < written or job[WRITTEN_CELL] == 0:
        return written
    fence()
    put(job[WRITTEN_CELL], 0, job[WRITTEN_BEFORE] + size)  # before entries lead there
    job[ENTERED] = enter_entries(records[:written], codes, places, numbers, numbers_size, 0)
    if job[INDEX_ROOM] == NO_INDEX:
        job[INDEXED] = key_count
    elif job[ENTERED] == written and key_count <= job[INDEX_ROOM]:
        job[INDEXED], _ = put_index(job[INDEX], job[INDEX_SIZE], job[SLOTS], job[ENTRIES], keys[:key_count])
    return written
