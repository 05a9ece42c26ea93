"""Ending tasks, also those that lose a cancellation."""

from __future__ import annotations

import asyncio

from embermq.client.tasks import end_tasks
from tests.unit.client.peer import run


def test_a_task_that_lost_its_first_cancellation_ends_all_the_same() -> None:
    async def work() -> None:
        async def stubborn() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:  # as wait_for does when its result comes at the same moment
                await asyncio.sleep(60)

        async def plain() -> None:
            await asyncio.sleep(60)

        async def done() -> None:
            pass

        tasks = [asyncio.create_task(each()) for each in (stubborn, plain, done)]
        await asyncio.sleep(0)
        await end_tasks(tasks)
        assert all(task.done() for task in tasks)

    run(work)
