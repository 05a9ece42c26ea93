"""Numbers as Java writes them: what tools compare and people are used to."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

_STEP: Final = 1024
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_double(value: float) -> str:
    """A double: plain from 0.001 up to ten million, with an exponent (`1.0E-4`) elsewhere."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), f"{value} is no finite number"
    first, *rest = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


def format_bytes(size: int) -> str:
    """A size for people: `100 B`, `1.5 KiB`, `5.0 GiB`."""
    if size < _STEP:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / _STEP**power:.1f} {_UNITS[power - 1]}"
