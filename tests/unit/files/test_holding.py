"""Things that go when nobody uses them any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from embermq.files.holding import Holdable


class Going(Holdable):
    """Takes its time to go, so that others can come meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.disposals = 0
        self._others = threading.Barrier(2)

    def close(self) -> None:
        self._dispose_when_free()

    def _dispose(self) -> None:
        self.disposals += 1
        with suppress(threading.BrokenBarrierError):
            self._others.wait(0.2)


def close_together(going: Going) -> list[Callable[[], None]]:
    return [going.close, going.close]


def close_beside_the_last_holder(going: Going) -> list[Callable[[], None]]:
    assert going.acquire()
    going.close()
    return [going.release, going.close]


@pytest.mark.parametrize("ends", [close_together, close_beside_the_last_holder])
def test_one_of_several_threads_disposes_of_a_thing(ends: Callable[[Going], list[Callable[[], None]]]) -> None:
    """A descriptor that is closed twice may be somebody else's by then."""
    going = Going()
    with ThreadPoolExecutor(2) as threads:
        for end in [threads.submit(end) for end in ends(going)]:
            end.result()
    going.close()
    assert going.disposals == 1
