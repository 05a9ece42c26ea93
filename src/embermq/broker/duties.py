"""What a broker does from time to time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


async def every(seconds: float, work: Callable[[], object], *, in_thread: bool = False) -> None:
    """Do `work` again and again, in a thread if it waits for the disk; what goes wrong is said, and tried again."""
    while True:
        await asyncio.sleep(seconds)
        try:
            if in_thread:
                await asyncio.to_thread(work)
            else:
                work()
        except Exception:
            log.exception("duty failed, it is tried again name=%s", getattr(work, "__qualname__", work))
