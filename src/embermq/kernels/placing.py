"""Plain SENDs find their places: topic and queue when they are read, offsets when they are stored.

    rows      of parse_sends: one a frame, see send_rows.py
    drafts    what encode_records takes, one a message; those of a row lie side by side
    queues    rows │ count      of every topic: where it is said where the rows of its queues are, and how many it has
    numbers   next │ …          eight of every queue, see log/queue_table.py

Between the two steps nothing else may be put: who calls sees to it that turns keep their order.
"""

from __future__ import annotations

from typing import Final

from embermq.kernels.columns import (
    DRAFT_BODY_AT,
    DRAFT_BODY_SIZE,
    DRAFT_BORN_HOST,
    DRAFT_BORN_TIME,
    DRAFT_FLAG,
    DRAFT_OFFSET,
    DRAFT_PREPARED_POSITION,
    DRAFT_PROPERTIES_AT,
    DRAFT_PROPERTIES_SIZE,
    DRAFT_QUEUE,
    DRAFT_RECONSUME_TIMES,
    DRAFT_SYS_FLAG,
    DRAFT_TOPIC,
    DRAFT_WIDTH,
    QUEUE_NEXT,
    QUEUE_PUT_SIZE,
    QUEUE_PUTS,
    RECORD_POSITION,
    RECORD_SIZE,
    RECORD_WIDTH,
)
from embermq.kernels.compiling import Table, kernel, part, variable
from embermq.kernels.memory import fits, get, put, row_at
from embermq.kernels.send_rows import (
    BORN_TIME,
    COLUMNS,
    DRAFTS,
    FIRST_DRAFT,
    POSITION,
    QUEUE,
    QUEUE_OFFSET,
    SYS_FLAG,
    TOPIC,
)

QUEUES_WIDTH: Final = 2
_ROWS, _COUNT = range(QUEUES_WIDTH)
_LAST: Final = 2**62  # no queue gets that far


@part
def _find_row(queues: Table, topic: int, queue: int, numbers: int, numbers_size: int) -> int:
    """The address of a queue's row in the table; 0 if there is no such queue."""
    if not 0 <= topic < queues.shape[0]:
        return 0
    known = row_at(queues, topic)
    if not 0 <= queue < get(known, _COUNT):
        return 0
    at = get(get(known, _ROWS), queue)
    return numbers + at * 8 if 0 <= at < numbers_size else 0


@part
def has_queue(row: int, queues: int, topic_count: int) -> bool:
    """Whether there is the queue that a row asks for; `queues` is the address of such a table."""
    topic, queue = get(row, TOPIC), get(row, QUEUE)
    return 0 <= topic < topic_count and 0 <= queue < get(queues + topic * (QUEUES_WIDTH * 8), _COUNT)


@part
def fill_draft(
    draft: int, row: int, body_at: int, body_size: int, properties_at: int, properties_size: int, flag: int, host: int,
    host_flag: int,
) -> None:  # fmt: skip
    """Make a draft of a message and of what its row says for all messages of the frame.

    `host` is the number of the sender's host, with its mark for sys flags.
    """
    put(draft, DRAFT_BODY_AT, body_at)
    put(draft, DRAFT_BODY_SIZE, body_size)
    put(draft, DRAFT_PROPERTIES_AT, properties_at)
    put(draft, DRAFT_PROPERTIES_SIZE, properties_size)
    put(draft, DRAFT_TOPIC, get(row, TOPIC))
    put(draft, DRAFT_QUEUE, get(row, QUEUE))
    put(draft, DRAFT_FLAG, flag)
    put(draft, DRAFT_SYS_FLAG, get(row, SYS_FLAG) | host_flag)
    put(draft, DRAFT_BORN_TIME, get(row, BORN_TIME))
    put(draft, DRAFT_BORN_HOST, host)
    put(draft, DRAFT_OFFSET, 0)
    put(draft, DRAFT_RECONSUME_TIMES, 0)
    put(draft, DRAFT_PREPARED_POSITION, 0)


@kernel("int64(int64[:, ::1], int64[:, ::1], int64, int64, int64[::1])")
def take_offsets(drafts: Table, queues: Table, numbers: int, numbers_size: int, places: Table) -> int:
    """Give every draft the next offset of its queue, and tell where that queue's numbers are; how many got one."""
    if drafts.shape[1] != DRAFT_WIDTH or queues.shape[1] != QUEUES_WIDTH or len(places) < len(drafts):
        return 0
    for number in range(drafts.shape[0]):
        draft = row_at(drafts, number)
        row = _find_row(queues, get(draft, DRAFT_TOPIC), get(draft, DRAFT_QUEUE), numbers, numbers_size)
        if row == 0 or not 0 <= get(row, QUEUE_NEXT) < _LAST:
            return number
        put(draft, DRAFT_OFFSET, get(row, QUEUE_NEXT))
        put(row, QUEUE_NEXT, get(row, QUEUE_NEXT) + 1)
        places[number] = (row - numbers) >> 3
    return len(drafts)


@kernel("int64(int64[:, ::1], int64[:, ::1], int64, int64)")
def give_back_offsets(drafts: Table, queues: Table, numbers: int, numbers_size: int) -> int:
    """Undo `take_offsets` for drafts that were not stored, the last that took an offset; how many gave one back."""
    if drafts.shape[1] != DRAFT_WIDTH or queues.shape[1] != QUEUES_WIDTH:
        return 0
    for number in range(drafts.shape[0]):
        draft = row_at(drafts, drafts.shape[0] - 1 - number)
        row = _find_row(queues, get(draft, DRAFT_TOPIC), get(draft, DRAFT_QUEUE), numbers, numbers_size)
        if row == 0 or get(row, QUEUE_NEXT) != get(draft, DRAFT_OFFSET) + 1:
            return number
        put(row, QUEUE_NEXT, get(draft, DRAFT_OFFSET))
    return len(drafts)


@kernel("int64(int64[::1], int64[::1])")
def list_places(places: Table, listed: Table) -> int:
    """List each place once, in the order they come in; how many there are, -1 if they are more than `listed` takes."""
    count = variable(0)
    for number in range(len(places)):
        place, at = places[number], variable(0)
        while at < count and listed[at] != place:
            at += 1
        if at < count:
            continue
        if count == len(listed):
            return -1
        listed[count] = place
        count += 1
    return count


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64, int64)")
def tell_places(rows: Table, drafts: Table, records: Table, queues: Table, numbers: int, numbers_size: int) -> int:
    """Write into every row where its messages are, and count them; how many rows there are before one without them."""
    count = min(len(drafts), len(records))
    if rows.shape[1] != COLUMNS or drafts.shape[1] != DRAFT_WIDTH or records.shape[1] != RECORD_WIDTH:
        return 0
    for number in range(len(rows)):
        row = row_at(rows, number)
        first, messages = get(row, FIRST_DRAFT), get(row, DRAFTS)
        if messages < 1 or not fits(first, messages, count):
            return number
        draft = row_at(drafts, first)
        known = _find_row(queues, get(draft, DRAFT_TOPIC), get(draft, DRAFT_QUEUE), numbers, numbers_size)
        if known == 0:
            return number
        put(row, QUEUE_OFFSET, get(draft, DRAFT_OFFSET))
        put(row, POSITION, get(row_at(records, first), RECORD_POSITION))
        size = variable(0)
        for each in range(first, first + messages):
            size += get(row_at(records, each), RECORD_SIZE)
        put(known, QUEUE_PUTS, get(known, QUEUE_PUTS) + messages)
        put(known, QUEUE_PUT_SIZE, get(known, QUEUE_PUT_SIZE) + size)
    return len(rows)
