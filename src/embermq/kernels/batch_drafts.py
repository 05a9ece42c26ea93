"""The drafts of a MessageBatch, whose bodies lie side by side: see store/batch_intake.py."""

from __future__ import annotations

from embermq.kernels.columns import (
    DRAFT_BODY_AT,
    DRAFT_BODY_SIZE,
    DRAFT_BORN_TIME,
    DRAFT_PROPERTIES_SIZE,
    DRAFT_QUEUE,
    DRAFT_SYS_FLAG,
    DRAFT_WIDTH,
)
from embermq.kernels.compiling import Table, kernel, variable
from embermq.kernels.memory import get, put, row_at


@kernel("UniTuple(int64, 2)(int64, int64, int64, int64[:, ::1])")
def place_bodies(ends: int, count: int, size: int, drafts: Table) -> tuple[int, int]:
    """Tell drafts where their bodies are in memory of `size` bytes: how many were told, and how large the largest is.

    `ends` is where `count` numbers lie, in the byte order of the host. It stops at one that is smaller than the one
    before it, or larger than `size`, and where there are no more drafts.
    """
    begin, largest = variable(0), variable(0)
    if drafts.shape[1] != DRAFT_WIDTH:
        return 0, 0
    for number in range(min(count, drafts.shape[0])):
        end = get(ends, number)
        if not begin <= end <= size:
            return number, largest
        draft = row_at(drafts, number)
        put(draft, DRAFT_BODY_AT, begin)
        put(draft, DRAFT_BODY_SIZE, end - begin)
        largest = max(largest, end - begin)
        begin = end
    return min(count, drafts.shape[0]), largest


@kernel("void(int64[:, ::1], int64, int64, int64, int64, int64)")
def share_out(drafts: Table, queue: int, queues: int, properties_size: int, born_time: int, sys_flag: int) -> None:
    """Give the first draft this queue and each other one the next, of so many; of no `queues`, all the same.

    What drafts have in common, all are told.
    """
    if drafts.shape[1] != DRAFT_WIDTH:
        return
    for number in range(drafts.shape[0]):
        draft = row_at(drafts, number)
        put(draft, DRAFT_QUEUE, queue)
        put(draft, DRAFT_PROPERTIES_SIZE, properties_size)
        put(draft, DRAFT_BORN_TIME, born_time)
        put(draft, DRAFT_SYS_FLAG, sys_flag)
        if queues > 0:
            queue = queue + 1 if queue + 1 < queues else 0
