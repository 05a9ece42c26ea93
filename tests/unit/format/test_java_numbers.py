"""Numbers in Java's form. The expected texts are what Double.toString gives."""

from __future__ import annotations

import pytest

from embermq.format.java_numbers import format_bytes, format_double


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (355.4375, "355.4375"),
        (0.001, "0.001"),
        (0.016666944449074152, "0.016666944449074152"),
        (1e-4, "1.0E-4"),
        (-0.00012345, "-1.2345E-4"),
        (9999999.9, "9999999.9"),
        (1e7, "1.0E7"),
        (123456789012.0, "1.23456789012E11"),
        (1.5e300, "1.5E300"),
    ],
)
def test_a_double_reads_as_in_java(value: float, text: str) -> None:
    assert format_double(value) == text
    assert float(text) == value


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 * 2**30, "5.0 GiB"),
        (252 * 2**30, "252.0 GiB"),
        (2**60, "1.0 EiB"),
    ],
)
def test_a_size_for_people(size: int, text: str) -> None:
    assert format_bytes(size) == text
