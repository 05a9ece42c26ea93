from __future__ import annotations

import pytest

from embermq.format.cursor import Cursor, Truncated


def test_a_cursor_moves_by_what_it_reads() -> None:
    cursor = Cursor(b"\x01\xff\xfe\x02abc", at=1)
    assert cursor.signed(2) == -2
    assert cursor.unsigned(1) == 2
    assert (cursor.at, cursor.left) == (4, 3)
    assert cursor.take(3) == b"abc"
    assert cursor.left == 0


def test_unsigned_numbers_have_no_sign() -> None:
    assert Cursor(b"\xff\xfe").unsigned(2) == 0xFFFE


def test_the_last_byte_can_be_taken_and_not_one_more() -> None:
    cursor = Cursor(memoryview(b"abc"))
    with pytest.raises(Truncated, match="4 bytes wanted at 0, 3 left"):
        cursor.take(4)
    assert cursor.at == 0
    assert cursor.take(3) == b"abc"
    assert cursor.take(0) == b""
    with pytest.raises(Truncated):
        cursor.take(1)


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(Truncated):
        Cursor(b"abc", at=2).take(-1)
