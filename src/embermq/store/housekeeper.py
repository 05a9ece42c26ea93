"""The thread that looks after a store: space, checkpoints, expired files, rates.

Each duty is a function with an interval. A duty that fails is logged and tried again at
its next turn; a duty that finds the disk failing closes the store's write gate itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from embermq.clock import Clock

log = logging.getLogger(__name__)

_TICK_S = 0.1


@dataclass(slots=True)
class Duty:
    """Something to do every `interval_s` seconds."""

    name: str
    interval_s: float
    act: Callable[[], object]
    due: float = field(default=0.0)


class Housekeeper:
    """Runs its duties one after the other, in one thread."""

    def __init__(self, duties: list[Duty], clock: Clock) -> None:
        self._duties = duties
        self._clock = clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="embermq-housekeeper", daemon=True)

    def start(self) -> None:
        now = self._clock.monotonic()
        for duty in self._duties:
            duty.due = now + duty.interval_s
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_S):
            for duty in self._duties:
                if self._clock.monotonic() >= duty.due and not self._stopping.is_set():
                    self._perform(duty)

    def _perform(self, duty: Duty) -> None:
        try:
            duty.act()
        except Exception:
            log.exception("duty failed, it is tried again name=%s seconds=%.1f", duty.name, duty.interval_s)
        duty.due = self._clock.monotonic() + duty.interval_s
