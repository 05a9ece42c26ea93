"""Locks on queues: one owner each, for as long as it renews them."""

from __future__ import annotations

import pytest

from embermq.broker.locks import QueueLocks
from embermq.format.wire_json import BrokerQueue
from tests.unit.broker.peers import SteppedClock

FIRST, SECOND = BrokerQueue("broker-a", "orders", 0), BrokerQueue("broker-a", "orders", 1)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def locks(clock: SteppedClock) -> QueueLocks:
    return QueueLocks(clock, timeout_ms=60_000)


def test_a_queue_has_one_owner_in_a_group(locks: QueueLocks) -> None:
    assert locks.lock("g", "one", [FIRST]) == [FIRST]
    assert locks.lock("g", "two", [FIRST, SECOND]) == [SECOND]
    assert locks.lock("h", "two", [FIRST]) == [FIRST]


def test_its_owner_gets_it_again_and_keeps_it_by_that(locks: QueueLocks, clock: SteppedClock) -> None:
    for _ in range(4):
        assert locks.lock("g", "one", [FIRST]) == [FIRST]
        clock.advance(ms=59_000)
        assert locks.lock("g", "two", [FIRST]) == []


def test_what_is_not_renewed_for_a_minute_is_free(locks: QueueLocks, clock: SteppedClock) -> None:
    locks.lock("g", "one", [FIRST])
    clock.advance(ms=60_000)
    assert locks.lock("g", "two", [FIRST]) == [FIRST]
    assert locks.lock("g", "one", [FIRST]) == []


def test_only_the_owner_lets_go(locks: QueueLocks) -> None:
    locks.lock("g", "one", [FIRST, SECOND])
    locks.unlock("g", "two", [FIRST])
    locks.unlock("h", "one", [FIRST])
    assert locks.lock("g", "two", [FIRST]) == []
    locks.unlock("g", "one", [FIRST])
    assert locks.lock("g", "two", [FIRST, SECOND]) == [FIRST]


def test_a_group_consumes_in_order_while_it_holds_a_lock(locks: QueueLocks, clock: SteppedClock) -> None:
    assert not locks.is_any_locked("g")
    locks.lock("g", "one", [FIRST])
    assert locks.is_any_locked("g")
    assert not locks.is_any_locked("h")
    clock.advance(ms=60_000)
    assert not locks.is_any_locked("g")


def test_expired_locks_are_forgotten_and_others_stay(locks: QueueLocks, clock: SteppedClock) -> None:
    locks.lock("g", "one", [FIRST])
    clock.advance(ms=30_000)
    locks.lock("g", "one", [SECOND])
    clock.advance(ms=30_000)
    locks.expire()
    assert locks.lock("g", "two", [FIRST, SECOND]) == [FIRST]
