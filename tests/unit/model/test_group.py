from __future__ import annotations

from embermq.model.group import ExponentialRetry, GroupConfig, RetryPolicy


def test_a_group_may_consume_unless_told_otherwise() -> None:
    group = GroupConfig("billing")
    assert group.may_consume
    assert group.may_broadcast
    assert not group.is_orderly
    assert (group.max_retries, group.retry_queues) == (16, 1)


def test_groups_with_equal_settings_are_equal() -> None:
    assert GroupConfig("billing") == GroupConfig("billing", attributes={})
    assert GroupConfig("billing") != GroupConfig("billing", max_retries=3)


def test_waits_between_retries_are_the_delay_levels_unless_told_otherwise() -> None:
    assert RetryPolicy() == RetryPolicy(kind="CUSTOMIZED", exponential=None, waits_ms=None)
    assert ExponentialRetry().max_ms == 7_200_000
