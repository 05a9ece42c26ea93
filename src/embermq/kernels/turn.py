"""A turn: plain SENDs of several connections on their way to be stored together, and the one call that takes more.

    numbers   what kernels and their callers know of a turn, see the names below
    rows      one a message (send_rows.py), and beside it a draft (columns.py)
    hosts     address and size of the host of every sender, after our own

A call reads what one connection received. It takes the frames that are plain SENDs to known topics and queues, and
stops at the first that is none.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.kernels.columns import BYTES_ADDRESS, BYTES_SIZE, BYTES_WIDTH, DRAFT_WIDTH
from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.memory import get, put
from embermq.kernels.placing import draft_rows
from embermq.kernels.send_rows import BODY_AT, BODY_SIZE, ROW_SIZE, SendRows
from embermq.kernels.sends import parse_sends
from embermq.kernels.topics import number_topics

# What a turn knows. The first ones change with every call.
COUNT, TEXT_END, SENDERS, REASON = range(4)
FRAME_LIMIT, HEADER_LIMIT, BODY_LIMIT, PROPERTIES_LIMIT, TOPICS, TOPICS_SIZE, QUEUES, TOPIC_COUNT = range(4, 12)
RECEIVED, RECEIVED_SIZE, _CAPACITY, _ROWS, _DRAFTS, _HOSTS, _TEXTS, _TEXTS_SIZE = range(12, 20)
NUMBERS: Final = 20

NOT_KNOWN: Final = 5  # why it stopped, besides the reasons of sends.py: topic or queue; ordinary code knows more


class TurnMemory:
    """The memory of a turn, used again and again."""

    def __init__(self, capacity: int, text_size: int) -> None:
        self.sends = SendRows(capacity, text_size)
        self.drafts: Table = np.zeros((capacity, DRAFT_WIDTH), np.int64)
        self.hosts: Table = np.zeros((capacity + 1, BYTES_WIDTH), np.int64)
        self._numbers: Table = np.zeros(NUMBERS, np.int64)
        self.address = int(self._numbers.ctypes.data)
        self.numbers = self._numbers.data  # quicker than numpy to read and write one by one
        self.numbers[_CAPACITY] = capacity
        self.numbers[_ROWS] = self.sends.rows_address
        self.numbers[_DRAFTS] = int(self.drafts.ctypes.data)
        self.numbers[_HOSTS] = int(self.hosts.ctypes.data)
        self.numbers[_TEXTS], self.numbers[_TEXTS_SIZE] = self.sends.scratch_address, text_size


@part
def _is_right(turn: int, begin: int, end: int) -> bool:
    """Whether what a turn knows can be."""
    count, text_end, senders = get(turn, COUNT), get(turn, TEXT_END), get(turn, SENDERS)
    if not (0 <= count <= get(turn, _CAPACITY) and 0 <= text_end <= get(turn, _TEXTS_SIZE)):
        return False
    return 0 <= senders < get(turn, _CAPACITY) and 0 <= begin <= end <= get(turn, RECEIVED_SIZE)


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def take_sends(turn: int, begin: int, end: int, host: int, host_size: int, host_flag: int) -> int:
    """Take plain SENDs from the bytes [begin, end) that were received of one sender; how many bytes they take.

    `turn` is the address of its numbers, `host` that of the sender's host as records have it.
    """
    if not _is_right(turn, begin, end):
        return 0
    first, text_end, sender = get(turn, COUNT), get(turn, TEXT_END), get(turn, SENDERS) + 1
    source, size = get(turn, RECEIVED) + begin, end - begin
    rows, drafts = get(turn, _ROWS) + first * ROW_SIZE, get(turn, _DRAFTS) + first * (DRAFT_WIDTH * 8)
    count, taken, text_used, reason = parse_sends(
        source, size, get(turn, FRAME_LIMIT), get(turn, HEADER_LIMIT), get(turn, BODY_LIMIT),
        get(turn, PROPERTIES_LIMIT), get(turn, _TEXTS) + text_end, get(turn, _TEXTS_SIZE) - text_end, rows,
        get(turn, _CAPACITY) - first,
    )  # fmt: skip
    known = number_topics(rows, count, source, size, get(turn, TOPICS), get(turn, TOPICS_SIZE))
    placed = draft_rows(
        rows, drafts, known, begin, text_end, sender, host_flag, get(turn, QUEUES), get(turn, TOPIC_COUNT)
    )
    put(turn, REASON, reason if placed == count else NOT_KNOWN)
    if placed == 0:
        return 0
    if placed < count:
        last = rows + (placed - 1) * ROW_SIZE
        taken = get(last, BODY_AT) + get(last, BODY_SIZE)
    sender_host = get(turn, _HOSTS) + sender * (BYTES_WIDTH * 8)
    put(sender_host, BYTES_ADDRESS, host)
    put(sender_host, BYTES_SIZE, host_size)
    put(turn, COUNT, first + placed)
    put(turn, TEXT_END, text_end + text_used)
    put(turn, SENDERS, sender)
    return taken
