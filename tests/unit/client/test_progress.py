"""How far a queue is read: what may be committed, and when there is room for more."""

from __future__ import annotations

import asyncio
import threading

import pytest

from embermq.client import progress as module
from embermq.client.progress import QueueProgress
from embermq.format.wire_json import BrokerQueue
from tests.unit.client.peer import run

QUEUE = BrokerQueue("broker-a", "orders", 0)


async def a_progress(*offsets: int, begin: int = 0) -> QueueProgress:
    progress = QueueProgress(QUEUE, begin)
    for offset in offsets:
        progress.add(offset, 100)
    progress.next_offset = offsets[-1] + 1 if offsets else begin
    return progress


def test_only_what_is_done_without_a_gap_may_be_committed() -> None:
    async def work() -> list[int]:
        progress = await a_progress(10, 11, 12, 15, begin=10)
        seen = [progress.committable]
        for offset in (12, 10, 15, 11):
            progress.finish(offset, 0)
            seen.append(progress.committable)
        return seen

    assert run(work) == [10, 10, 11, 11, 16]


def test_with_nothing_open_all_that_was_looked_at_may_be_committed() -> None:
    async def work() -> int:
        progress = await a_progress(begin=5)
        progress.next_offset = 40  # nothing that the filter wants among them
        return progress.committable

    assert run(work) == 40


def test_what_came_before_a_reset_counts_no_more() -> None:
    async def work() -> None:
        progress = await a_progress(10, 11, begin=10)
        progress.restart(3)
        assert (progress.committable, progress.waiting) == (3, 0)
        progress.add(3, 1)
        progress.next_offset = 4
        progress.finish(10, 0)
        progress.finish(3, 0)  # of the old generation
        assert progress.committable == 3
        progress.finish(3, 1)
        assert progress.committable == 4

    run(work)


def test_a_queue_that_was_taken_away_changes_no_more() -> None:
    async def work() -> None:
        progress = await a_progress(0)
        progress.is_dropped = True
        progress.finish(0, 0)
        assert progress.committable == 0

    run(work)


def test_there_is_room_again_when_some_are_done_by_whatever_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MESSAGES", 3)

    async def work() -> None:
        progress = await a_progress(0, 1, 2)
        waiting = asyncio.create_task(progress.wait_room())
        done, _ = await asyncio.wait({waiting}, timeout=0.05)
        assert not done
        thread = threading.Thread(target=progress.finish, args=(0, 0))
        thread.start()
        await waiting
        thread.join()
        assert progress.waiting == 2

    run(work)


def test_large_messages_fill_the_room_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 250)

    async def work() -> None:
        progress = await a_progress(0, 1)
        await progress.wait_room()
        progress.add(2, 100)
        waiting = asyncio.create_task(progress.wait_room())
        done, _ = await asyncio.wait({waiting}, timeout=0.05)
        assert not done
        progress.restart(0)
        await waiting

    run(work)
