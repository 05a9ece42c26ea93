"""When and how long after something is tried again."""

from __future__ import annotations

import pytest

from embermq.client.retry import Backoff, Deadline, is_passing
from embermq.errors import CallTimeout, ConnectionLost, EmberError, NotPermitted, Refused, TopicNotFound


def test_waits_double_up_to_a_limit_and_are_shortened_by_chance() -> None:
    for _ in range(50):
        backoff = Backoff(first_s=0.1, longest_s=1.0)
        for expected in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
            assert expected / 2 <= backoff.next() <= expected


def test_success_begins_anew_and_many_failures_overflow_nothing() -> None:
    backoff = Backoff(first_s=0.1, longest_s=1.0)
    for _ in range(2000):
        assert backoff.next() <= 1.0
    backoff.reset()
    assert backoff.next() <= 0.1


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (ConnectionLost("gone"), True),
        (CallTimeout("late"), True),
        (Refused(2, "busy", asked="send"), True),
        (Refused(14, "disk", asked="send"), True),
        (Refused(215, "slow down", asked="pull"), True),
        (Refused(1500, "go away", asked="send"), True),
        (Refused(1, "error", asked="send"), False),
        (NotPermitted("no"), False),
        (TopicNotFound("t"), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: EmberError, passing: bool) -> None:
    assert is_passing(error) == passing


def test_a_deadline_passes() -> None:
    assert Deadline(0).has_passed
    assert 9 < Deadline(10).left_s <= 10
