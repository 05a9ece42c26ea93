"""A turn: plain SENDs of several connections on their way to be stored together, and the one call that takes more.

    numbers   what kernels and their callers know of a turn, see the names below
    rows      one a frame (send_rows.py)
    drafts    one a message (columns.py), in the order of the rows
    hosts     address and size of the host of every sender, after our own

A call reads what one connection received. It takes the frames that are plain SENDs to known topics and queues, and
stops at the first that is none.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.kernels.batches import draft_batch
from embermq.kernels.columns import BYTES_ADDRESS, BYTES_SIZE, BYTES_WIDTH, DRAFT_WIDTH
from embermq.kernels.compiling import Table, inlined, kernel, part
from embermq.kernels.memory import get, put
from embermq.kernels.parked import park_draft
from embermq.kernels.placing import fill_draft, has_queue
from embermq.kernels.send_rows import (
    ASKED,
    ASKS,
    ASKS_COMMIT,
    ASKS_NOTHING,
    BODY_AT,
    BODY_SIZE,
    DRAFTS,
    FIRST_DRAFT,
    FLAG,
    PROPERTIES_AT,
    PROPERTIES_SIZE,
    ROW_SIZE,
    TOPIC_AT,
    UNIQUE_AT,
    SendRows,
)
from embermq.kernels.sends import NOT_PLAIN, ROWS_FULL, parse_sends
from embermq.kernels.topics import number_topics

# What a turn knows. The first ones change with every call.
COUNT, TEXT_END, SENDERS, REASON = range(4)
FRAME_LIMIT, HEADER_LIMIT, BODY_LIMIT, PROPERTIES_LIMIT, TOPICS, TOPICS_SIZE, QUEUES, TOPIC_COUNT = range(4, 12)
RECEIVED, RECEIVED_SIZE, CAPACITY, ROWS, DRAFTS_AT, HOSTS, TEXTS, TEXTS_SIZE = range(12, 20)
DRAFT_COUNT, DRAFT_CAPACITY = range(20, 22)
BATCH_ROOM: Final = 22  # for all records of a batch together
RECORD_EXTRA: Final = 23  # what a record may need besides its body and properties
PARKING: Final = 24  # the address of what is said of messages that wait, see parked.py; 0: plain code takes them
HALVES: Final = 25  # how many of the rows are half messages
NUMBERS: Final = 26

NOT_KNOWN: Final = 5  # why it stopped, besides the reasons of sends.py: topic or queue; ordinary code knows more


class TurnMemory:
    """The memory of a turn, used again and again: for so many rows, for properties, and for drafts."""

    def __init__(self, capacity: int, text_size: int, draft_capacity: int) -> None:
        self.sends = SendRows(capacity, text_size)
        self.drafts: Table = np.zeros((draft_capacity, DRAFT_WIDTH), np.int64)
        self.hosts: Table = np.zeros((capacity + 1, BYTES_WIDTH), np.int64)
        self._numbers: Table = np.zeros(NUMBERS, np.int64)
        self.address = int(self._numbers.ctypes.data)
        self.numbers = self._numbers.data  # quicker than numpy to read and write one by one
        self.numbers[CAPACITY] = capacity
        self.numbers[DRAFT_CAPACITY] = draft_capacity
        self.numbers[ROWS] = self.sends.rows_address
        self.numbers[DRAFTS_AT] = int(self.drafts.ctypes.data)
        self.numbers[HOSTS] = int(self.hosts.ctypes.data)
        self.numbers[TEXTS], self.numbers[TEXTS_SIZE] = self.sends.scratch_address, text_size


@part
def _is_right(turn: int, begin: int, end: int) -> bool:
    """Whether what a turn knows can be."""
    count, text_end, senders = get(turn, COUNT), get(turn, TEXT_END), get(turn, SENDERS)
    if not (0 <= count <= get(turn, CAPACITY) and 0 <= text_end <= get(turn, TEXTS_SIZE)):
        return False
    if not 0 <= get(turn, DRAFT_COUNT) <= get(turn, DRAFT_CAPACITY):
        return False
    return 0 <= senders < get(turn, CAPACITY) and 0 <= begin <= end <= get(turn, RECEIVED_SIZE)


@part
def _draft_row(
    turn: int, row: int, first: int, source: int, text_base: int, used: int, host: int, host_flag: int
) -> tuple[int, int]:
    """Make the drafts of a row: how many there are and how far the texts are used, or a reason and a negative number.

    The row counts from `source`, which is a part of what was received, and from `text_base`.
    """
    received, texts = get(turn, RECEIVED), get(turn, TEXTS)
    drafts, most = get(turn, DRAFTS_AT) + first * (DRAFT_WIDTH * 8), get(turn, DRAFT_CAPACITY) - first
    body, properties_at = source + get(row, BODY_AT), get(row, PROPERTIES_AT) + text_base
    if get(row, DRAFTS) == 0:
        if get(row, ASKS) != ASKS_NOTHING:
            return NOT_PLAIN, -1
        return draft_batch(
            row, texts + properties_at, body, received, drafts, most, texts, used, get(turn, TEXTS_SIZE),
            get(turn, PROPERTIES_LIMIT), get(turn, BATCH_ROOM), get(turn, RECORD_EXTRA), host, host_flag,
        )  # fmt: skip
    if most < 1:
        return ROWS_FULL, -1
    fill_draft(
        drafts, row, body - received, get(row, BODY_SIZE), properties_at, get(row, PROPERTIES_SIZE), get(row, FLAG),
        host, host_flag,
    )  # fmt: skip
    if get(row, ASKS) == ASKS_NOTHING:
        return 1, used
    if get(turn, PARKING) == 0:
        return NOT_PLAIN, -1
    if get(row, ASKS) == ASKS_COMMIT:
        put(row, ASKED, get(row, ASKED) + text_base)
    return park_draft(
        drafts, row, get(turn, PARKING), source + get(row, TOPIC_AT), texts + properties_at,
        texts + get(row, UNIQUE_AT) + text_base, texts, used, get(turn, TEXTS_SIZE),
    )  # fmt: skip


@inlined
def _draft_rows(
    turn: int, rows: int, count: int, source: int, text_base: int, used: int, host: int, host_flag: int
) -> tuple[int, int, int, int]:
    """Make the drafts of all rows before the first that must wait: rows, drafts, how far the texts are, and why."""
    first = get(turn, DRAFT_COUNT)
    for number in range(count):
        row = rows + number * ROW_SIZE
        if not has_queue(row, get(turn, QUEUES), get(turn, TOPIC_COUNT)):
            return number, first, used, NOT_KNOWN
        drafts, after = _draft_row(turn, row, first, source, text_base, used, host, host_flag)
        if after < 0:
            return number, first, used, drafts
        put(row, UNIQUE_AT, get(row, UNIQUE_AT) + text_base)
        put(row, FIRST_DRAFT, first)
        put(row, DRAFTS, drafts)
        if get(row, ASKS) == ASKS_COMMIT:
            put(turn, HALVES, get(turn, HALVES) + 1)
        first, used = first + drafts, after
    return count, first, used, NOT_KNOWN


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def take_sends(turn: int, begin: int, end: int, host: int, host_size: int, host_flag: int) -> int:
    """Take plain SENDs from the bytes [begin, end) that were received of one sender; how many bytes they take.

    `turn` is the address of its numbers, `host` that of the sender's host as records have it.
    """
    if not _is_right(turn, begin, end):
        return 0
    first, text_end, sender = get(turn, COUNT), get(turn, TEXT_END), get(turn, SENDERS) + 1
    source, size = get(turn, RECEIVED) + begin, end - begin
    rows = get(turn, ROWS) + first * ROW_SIZE
    count, taken, text_used, reason = parse_sends(
        source, size, get(turn, FRAME_LIMIT), get(turn, HEADER_LIMIT), get(turn, BODY_LIMIT),
        get(turn, PROPERTIES_LIMIT), get(turn, TEXTS) + text_end, get(turn, TEXTS_SIZE) - text_end, rows,
        get(turn, CAPACITY) - first,
    )  # fmt: skip
    known = number_topics(rows, count, source, size, get(turn, TOPICS), get(turn, TOPICS_SIZE))
    placed, drafts, texts_used, why = _draft_rows(
        turn, rows, known, source, text_end, text_end + text_used, sender, host_flag
    )
    put(turn, REASON, reason if placed == count else why)
    if placed == 0:
        return 0
    if placed < count:
        last = rows + (placed - 1) * ROW_SIZE
        taken = get(last, BODY_AT) + get(last, BODY_SIZE)
    sender_host = get(turn, HOSTS) + sender * (BYTES_WIDTH * 8)
    put(sender_host, BYTES_ADDRESS, host)
    put(sender_host, BYTES_SIZE, host_size)
    put(turn, COUNT, first + placed)
    put(turn, DRAFT_COUNT, drafts)
    put(turn, TEXT_END, texts_used)
    put(turn, SENDERS, sender)
    return taken
