"""What models of a broker have in common: a store in memory, a clock that the test moves, crashes and restarts.

A crash is a copy of the directory of the open store: what a killed process leaves.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, initialize

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.store.settings import StoreSettings
from embermq.store.store import Store
from tests.builders import SMALL_SIZES, ManualClock
from tests.crash.conftest import MEMORY
from tests.unit.broker.brokers import HOST

T = TypeVar("T")


class BrokerMachine(RuleBasedStateMachine):
    """A broker that is opened, closed, and opened again on what a kill left."""

    broker_settings: ClassVar[BrokerSettings] = BrokerSettings()
    durability: ClassVar[str] = "async"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="embermq-", dir=MEMORY if MEMORY.is_dir() else None))
        self.clock = ManualClock(1_700_000_000_000)
        self.loop = asyncio.new_event_loop()
        self.lives = 0  # that ended in a crash

    @property
    def path(self) -> Path:
        return self.folder / f"store-{self.lives}"

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self.loop.run_until_complete(wait())

    @initialize()
    def open(self) -> None:
        values = {**SMALL_SIZES, "durability": self.durability, "reserve_bytes": 0, "store_host": str(HOST)}
        self.store = Store(self.path, StoreSettings.make(values), clock=self.clock, report=lambda done, total: None)
        self.run(self._open())
        self.opened()

    async def _open(self) -> None:
        self.broker = Broker(self.store, self.broker_settings, host_of=lambda peer: HOST, clock=self.clock)
        self.broker.start()

    def opened(self) -> None:
        """The broker is there: make its clients."""

    def close(self) -> None:
        self.run(self.broker.stop())
        self.store.close()

    def go_on_with_copy(self) -> None:
        """Go on with the files as a killed process leaves them."""
        copied = self.folder / f"store-{self.lives + 1}"
        # With holes: a timer's wheel is 38 MB, of which a few pages are used.
        subprocess.run(["cp", "-r", "--sparse=always", str(self.path), str(copied)], check=True)
        self.close()
        self.lives += 1
        self.change_copy()
        self.open()

    def change_copy(self) -> None:
        """What else a crash does to the files, which are at `path` now."""

    def is_timer_idle(self) -> bool:
        """Whether all that is due by now has been delivered."""
        assert self.broker.timers is not None
        timers = self.broker.timers.timers
        self.broker.timers.wake()
        due = timers.next_time()
        return timers.behind == 0 and (due is None or due > self.clock.now_ms())

    def work_for(self, steps: int) -> None:
        """Let the event loop turn so often."""

        async def turn() -> None:
            for _ in range(steps):
                await asyncio.sleep(0)

        self.run(turn())

    def finish(self) -> None:
        """What must hold in the end, with time enough."""

    def teardown(self) -> None:
        if hasattr(self, "broker"):
            self.finish()
            self.close()
        self.loop.close()
        shutil.rmtree(self.folder)
