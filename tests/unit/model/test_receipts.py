"""The receipts of a batch."""

from __future__ import annotations

from embermq.model.message import Receipt, Receipts
from tests.builders import a_placed

PLACES = [a_placed(offset, offset * 100) for offset in range(3)]
WANTED = [Receipt("orders", 0, offset, offset * 100, 7, "7F") for offset in range(3)]


def test_receipts_are_a_sequence_in_the_order_of_the_batch() -> None:
    receipts = Receipts(PLACES, 7, "7F")
    assert list(receipts) == WANTED
    assert (len(receipts), receipts[1], receipts[-1], receipts[1:]) == (3, WANTED[1], WANTED[2], WANTED[1:])


def test_receipts_equal_a_list_of_the_same_and_print_like_it() -> None:
    receipts = Receipts(PLACES, 7, "7F")
    assert receipts == WANTED
    assert receipts != WANTED[:2]
    assert repr(receipts) == repr(WANTED)
