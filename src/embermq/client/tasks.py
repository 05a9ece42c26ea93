"""Ending background tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

_PATIENCE_S: Final = 0.1


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel `tasks` and return when all have ended."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        # In Python 3.11, `wait_for` loses a cancellation that comes together with what it waited for. Such a task
        # goes on, so it is cancelled again.
        _, left = await asyncio.wait(left, timeout=_PATIENCE_S)
