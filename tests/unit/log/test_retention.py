"""Which log files may go."""

from __future__ import annotations

import pytest

from embermq.log.retention import LogFile, Moment, Policy, Reason, plan_deletions

HOUR = 3_600_000
NOW = 1_700_000_000_000


def files(*ages_hours: float | None, size: int = 100) -> list[LogFile]:
    return [
        LogFile(number * size, size, None if age is None else NOW - int(age * HOUR))
        for number, age in enumerate(ages_hours)
    ]


def policy(**changes: object) -> Policy:
    values: dict[str, object] = {
        "retention_ms": 72 * HOUR,
        "max_bytes": None,
        "delete_batch": 10,
        "disk_max_ratio": 0.75,
        "disk_clean_ratio": 1.0,
    }
    return Policy(**{**values, **changes})  # type: ignore[arg-type]


def moment(*, in_window: bool = True, asked: bool = False, disk_ratio: float = 0.1) -> Moment:
    return Moment(now_ms=NOW, in_window=in_window, asked=asked, disk_ratio=disk_ratio)


def starts(plan: list[tuple[LogFile, Reason]]) -> list[int]:
    return [file.start for file, _ in plan]


def test_only_the_leading_run_of_expired_files_goes() -> None:
    plan = plan_deletions(files(90, 80, 10, 80, 0), policy(), moment())
    assert plan == [(files(90)[0], Reason.EXPIRED), (files(90, 80)[1], Reason.EXPIRED)]


@pytest.mark.parametrize(("age", "goes"), [(72, True), (72 - 1 / HOUR, False)])
def test_a_file_expires_at_its_hour_and_not_a_moment_before(age: float, goes: bool) -> None:
    assert bool(plan_deletions(files(age, 0), policy(), moment())) is goes


def test_the_last_file_never_goes() -> None:
    assert plan_deletions(files(1000), policy(max_bytes=1), moment(disk_ratio=0.99)) == []


def test_a_file_of_unknown_age_stays() -> None:
    assert plan_deletions(files(None, 0), policy(), moment()) == []


@pytest.mark.parametrize(
    ("now", "goes"),
    [
        (moment(in_window=False), False),
        (moment(in_window=False, asked=True), True),
        (moment(in_window=False, disk_ratio=0.75), False),
        (moment(in_window=False, disk_ratio=0.76), True),
    ],
)
def test_expired_files_wait_for_their_hour_unless_asked_or_space_is_short(now: Moment, goes: bool) -> None:
    assert bool(plan_deletions(files(100, 0), policy(), now)) is goes


@pytest.mark.parametrize(("max_bytes", "gone"), [(500, []), (499, [0]), (300, [0, 100]), (1, [0, 100, 200, 300])])
def test_files_over_the_limit_in_bytes_go_whatever_their_age(max_bytes: int, gone: list[int]) -> None:
    plan = plan_deletions(files(0, 0, 0, 0, 0), policy(max_bytes=max_bytes), moment(in_window=False))
    assert starts(plan) == gone
    assert {reason for _, reason in plan} <= {Reason.TOO_MANY_BYTES}


def test_a_disk_above_its_ratio_costs_the_oldest_files() -> None:
    plan = plan_deletions(files(0, 0, 0), policy(disk_clean_ratio=0.85), moment(in_window=False, disk_ratio=0.86))
    assert plan == [(files(0)[0], Reason.DISK_SHORT), (files(0, 0)[1], Reason.DISK_SHORT)]


def test_one_round_deletes_a_batch_at_most() -> None:
    assert starts(plan_deletions(files(*[100] * 9), policy(delete_batch=3), moment())) == [0, 100, 200]
