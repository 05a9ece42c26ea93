"""Delay levels: the fixed times by which a message can be put off."""

from __future__ import annotations

from typing import Final

from embermq.errors import SettingsError

_UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """The milliseconds of each level; level 1 comes first. Raises SettingsError."""
    levels = []
    for word in text.split():
        number, unit = word[:-1], word[-1:]
        if not (number.isascii() and number.isdigit()) or unit not in _UNITS_MS:
            raise SettingsError(f"delay level {word[:80]!r}: a number and s, m, h or d expected, such as 30s")
        levels.append(int(number) * _UNITS_MS[unit])
    return tuple(levels)


DEFAULT_DELAY_LEVELS: Final = parse_delay_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
