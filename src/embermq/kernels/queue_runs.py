"""The queue entries of records in log memory, by queue: what log.placed.PlacedBatch.runs gives.

The records come as a table from encode_records or scan_records, their tags codes from find_codes_and_keys.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.kernels.columns import (
    DONE,
    FULL,
    MISUSED,
    OUTSIDE,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_QUEUE,
    RECORD_SIZE,
    RECORD_SYS_FLAG,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
    RUN_BEGIN,
    RUN_COUNT,
    RUN_OFFSET,
    RUN_QUEUE,
    RUN_TOPIC_AT,
    RUN_TOPIC_SIZE,
    RUN_WIDTH,
    UNFIT,
)
from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.memory import fits, get, is_same, load_i64, load_u8, put, row_at, store_32, store_64
from embermq.model.flags import NOT_QUEUED

_I32: Final = 2**31
_RUN_SIZE: Final = RUN_WIDTH * 8  # bytes of a row
_MIX: Final = 0x9E37_79B9_7F4A_7C15 - 2**64  # an odd number with its bits well spread


@kernel("int64(int64, int64, int64)")
def mix_place(topic: int, size: int, queue: int) -> int:
    """A number for a topic, the `size` bytes at an address, and a queue, to look them up by."""
    value = queue * _MIX + size
    if size < 8:
        for index in range(size):
            value = (value ^ load_u8(topic + index)) * _MIX
        return value ^ value >> 32
    for at in range(0, size - 8, 8):
        value = (value ^ load_i64(topic + at)) * _MIX
    value = (value ^ load_i64(topic + size - 8)) * _MIX  # some bytes of it perhaps once more
    return value ^ value >> 32


@part
def _find_run(data: int, record: int, runs: int, count: int, places: int, room: int) -> int:
    """The number of the run that a record belongs to; `count`, with its place taken, if it begins a new one.

    `places` are numbers of runs, found by topic and queue, and -1 where there is none; there are `room` of them.
    """
    topic_at, topic_size = get(record, RECORD_TOPIC_AT), get(record, RECORD_TOPIC_SIZE)
    queue = get(record, RECORD_QUEUE)
    place = mix_place(data + topic_at, topic_size, queue) & (room - 1)
    while get(places, place) >= 0:
        run = runs + get(places, place) * _RUN_SIZE
        if (
            get(run, RUN_QUEUE) == queue
            and get(run, RUN_TOPIC_SIZE) == topic_size
            and is_same(data + get(run, RUN_TOPIC_AT), data + topic_at, topic_size)
        ):
            offset, first = get(record, RECORD_OFFSET), get(run, RUN_OFFSET)
            if offset > first and offset - first == get(run, RUN_COUNT):  # the first: no run goes on beyond 2⁶³
                return get(places, place)
            break  # a gap: from here on, the new run stands for the queue
        place = (place + 1) & (room - 1)
    put(places, place, count)
    return count


@part
def _begin_run(run: int, record: int) -> None:
    put(run, RUN_TOPIC_AT, get(record, RECORD_TOPIC_AT))
    put(run, RUN_TOPIC_SIZE, get(record, RECORD_TOPIC_SIZE))
    put(run, RUN_QUEUE, get(record, RECORD_QUEUE))
    put(run, RUN_OFFSET, get(record, RECORD_OFFSET))
    put(run, RUN_COUNT, 0)


@part
def _find_runs(
    data: int, size: int, records: Table, runs: Table, run_of: Table, places: Table
) -> tuple[int, int]:  # fmt: skip
    """Fill `runs`, except where their entries begin, and `run_of` with the run of each record, -1 for none.

    Returns how many runs there are, and why there are none. `places` is for _find_run.
    """
    count = 0
    for number in range(records.shape[0]):
        record = row_at(records, number)
        run_of[number] = -1
        if get(record, RECORD_SYS_FLAG) & NOT_QUEUED:
            continue
        if not fits(get(record, RECORD_TOPIC_AT), get(record, RECORD_TOPIC_SIZE), size):
            return 0, OUTSIDE
        if not 0 <= get(record, RECORD_SIZE) < _I32:
            return 0, UNFIT
        found = _find_run(data, record, row_at(runs, 0), count, row_at(places, 0), places.size)
        run = row_at(runs, found)
        if found == count:
            _begin_run(run, record)
            count += 1
        put(run, RUN_COUNT, get(run, RUN_COUNT) + 1)
        run_of[number] = found
    return count, DONE


@part
def _write_entries(records: Table, codes: Table, runs: Table, run_count: int, run_of: Table, target: int) -> int:
    """Write the entries of all runs, one behind the other; return how many there are."""
    entry_count = 0
    for number in range(run_count):
        run = row_at(runs, number)
        put(run, RUN_BEGIN, entry_count)
        entry_count += get(run, RUN_COUNT)
        put(run, RUN_COUNT, 0)  # counted once more while they are written
    for number in range(records.shape[0]):
        if run_of[number] < 0:
            continue
        run, record = row_at(runs, run_of[number]), row_at(records, number)
        at = target + (get(run, RUN_BEGIN) + get(run, RUN_COUNT)) * QUEUE_ENTRY_SIZE
        store_64(at, get(record, RECORD_POSITION))
        store_32(at + 8, get(record, RECORD_SIZE))
        store_64(at + 12, codes[number])
        put(run, RUN_COUNT, get(run, RUN_COUNT) + 1)
    return entry_count


@kernel("UniTuple(int64, 3)(int64, int64, int64[:, ::1], int64[::1], int64, int64, int64[:, ::1])")
def group_entries(
    data: int, size: int, records: Table, codes: Table, target: int, target_size: int, runs: Table
) -> tuple[int, int, int]:
    """Write the queue entries of `records` to the memory at `target`, by queue, and fill `runs` with their runs.

    Runs come in the order of their first records, entries of a run in that of the records. A record that is in the
    log alone has no entry; a gap between the offsets of a queue begins a new run. Returns how many runs and
    entries there are, and why there are none: it is all or nothing.
    """
    count = records.shape[0]
    if records.shape[1] != RECORD_WIDTH or runs.shape[1] != RUN_WIDTH or codes.size < count or size < 0:
        return 0, 0, MISUSED
    if runs.shape[0] < count or target_size < count * QUEUE_ENTRY_SIZE:
        return 0, 0, FULL
    room = 2
    while room < 2 * count:  # so at least half of the places stay free
        room *= 2
    run_of = np.empty(count, np.int64)
    run_count, reason = _find_runs(data, size, records, runs, run_of, np.full(room, -1, np.int64))
    if reason != DONE:
        return 0, 0, reason
    return run_count, _write_entries(records, codes, runs, run_count, run_of, target), DONE
