"""The list of damage stays short, and still tells all that is hidden."""

from __future__ import annotations

from pathlib import Path

from embermq.store.verify_damage import MOST_OF_A_KIND, Damage, DamageKind, DamageList, Hidden, NumberedEntry

QUEUE = Path("/store/consumequeue/orders/0/00000000000000000000")


def with_entries(*numbers: int) -> list[Damage]:
    damage = DamageList(Path("/store"))
    for number in numbers:
        entry = NumberedEntry("orders/0 offset", number)
        hides = [Hidden("orders", 0, number, number + 1)]
        damage.add(QUEUE, 20 * number, DamageKind.QUEUE, f"orders/0 offset {number} is bad", hides=hides, entry=entry)
    return damage.items()


def test_entries_side_by_side_are_one_line_at_the_place_of_the_first() -> None:
    (damage,) = with_entries(7, 8, 9)
    assert damage.position == 140
    assert damage.detail == "orders/0 offset 7 to 9 are wrong; orders/0 offset 7 is bad"
    assert damage.hides == (Hidden("orders", 0, 7, 10),)


def test_an_entry_for_itself_is_told_as_it_is() -> None:
    assert [each.detail for each in with_entries(7, 9)] == ["orders/0 offset 7 is bad", "orders/0 offset 9 is bad"]


def test_what_is_only_counted_still_tells_what_it_hides() -> None:
    *lines, rest = with_entries(*range(0, 2 * MOST_OF_A_KIND + 6, 2))
    assert len(lines) == MOST_OF_A_KIND
    assert rest.detail == "3 more of this kind in this file"
    assert rest.hides == tuple(Hidden("orders", 0, at, at + 1) for at in (2_000, 2_002, 2_004))
