"""The next offsets of light queues: right, however few of them are kept."""

from __future__ import annotations

import pytest

from embermq.log import light_offsets
from embermq.log.light_offsets import LightOffsets


class Log:
    """A log whose records wait to be dispatched."""

    def __init__(self) -> None:
        self.end = self.dispatched = 0
        self.queues: dict[str, int] = {}
        self._waiting: list[bytes] = []

    def put(self, offsets: LightOffsets, name: bytes) -> int:
        offset = offsets.next(name)
        self.end += 1
        offsets.confirm({name: offset + 1})
        self._waiting.append(name)
        return offset

    def dispatch(self) -> None:
        for name in self._waiting:
            self.queues[name.decode()] = self.queues.get(name.decode(), 0) + 1
        self._waiting.clear()
        self.dispatched = self.end


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setattr(light_offsets, "GENERATION", 10)
    return Log()


def open_offsets(log: Log) -> LightOffsets:
    find = lambda name: log.queues.get(name, 0)  # noqa: E731
    return LightOffsets(find, log_end=lambda: log.end, dispatched=lambda: log.dispatched)


@pytest.mark.parametrize("every", [1, 7, 40, 1000])
def test_offsets_follow_each_other_whenever_the_log_is_dispatched(log: Log, every: int) -> None:
    offsets, given = open_offsets(log), dict[bytes, list[int]]()
    for number in range(1000):
        name = b"%%LMQ%%%d" % (number * 7 % 60)
        given.setdefault(name, []).append(log.put(offsets, name))
        if number % every == 0:
            log.dispatch()
    assert all(found == list(range(len(found))) for found in given.values())


def test_few_are_kept_once_they_can_be_looked_up(log: Log) -> None:
    offsets = open_offsets(log)
    for number in range(1000):
        log.put(offsets, b"%%LMQ%%%d" % number)
        log.dispatch()
    assert len(offsets) <= 2 * light_offsets.GENERATION


def test_a_queue_that_is_deleted_begins_anew(log: Log) -> None:
    offsets = open_offsets(log)
    log.put(offsets, b"%LMQ%a")
    offsets.forget(b"%LMQ%a")
    assert offsets.next(b"%LMQ%a") == 0
