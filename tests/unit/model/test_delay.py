from __future__ import annotations

import pytest

from embermq.errors import SettingsError
from embermq.model.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels


def test_there_are_eighteen_levels_from_a_second_to_two_hours() -> None:
    assert len(DEFAULT_DELAY_LEVELS) == 18
    assert DEFAULT_DELAY_LEVELS[0] == 1000
    assert DEFAULT_DELAY_LEVELS[2] == 10_000
    assert DEFAULT_DELAY_LEVELS[-1] == 7_200_000


def test_every_unit_is_known() -> None:
    assert parse_delay_levels("2s 3m 4h 5d") == (2000, 180_000, 14_400_000, 432_000_000)


def test_no_levels_are_no_levels() -> None:
    assert parse_delay_levels("  ") == ()


@pytest.mark.parametrize("text", ["1", "s", "1x", "-1s", "1.5s", "1s,2s", "1S", "²s"])
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match="delay level"):
        parse_delay_levels(f"1s {text}")
