"""Keys and entries of an index file: a kernel goes over them as plain `verify` does, to the first that differs."""

from __future__ import annotations

from array import array
from pathlib import Path
from random import Random

import numpy as np
import pytest

from embermq.format.index_entry import ENTRY, FIRST_ENTRY, entry_at, index_file_size
from embermq.kernels.columns import KEY_WIDTH
from embermq.kernels.found_records import FoundKeys
from embermq.log.index_file import IndexFile
from embermq.log.index_keys import Row
from embermq.store.verify_damage import DamageList
from embermq.store.verify_index_file import IndexEntries, IndexFacts
from tests.unit.kernels.kernel_builders import CASES, STORE_TIME, run_cases

SLOTS, ENTRIES = 13, 60


def a_file(path: Path, rows: list[Row]) -> bytes:
    file = IndexFile.create(path, slots=SLOTS, entries=ENTRIES)
    file.reserve(ENTRIES - 1)
    file.put(rows)
    content = bytes(file.mapped.view)
    file.close()
    path.unlink()
    return content


def some_rows(random: Random) -> list[Row]:
    positions = sorted(random.randrange(2**40) for _ in range(random.randrange(1, ENTRIES - 1)))
    times = (STORE_TIME, STORE_TIME + 999, STORE_TIME + 86_400_000, STORE_TIME - 1)
    return [
        (random.choice((0, 2**31 - 1, random.randrange(2**31))), (position, random.choice(times)))
        for position in positions
    ]


def facts(view: bytes, random: Random) -> IndexFacts:
    is_settled = random.random() < 0.5
    until = random.choice((2**63, random.randrange(2**40)))
    return IndexFacts(
        Path("index"), memoryview(view), SLOTS, ENTRIES, is_settled, until, lambda position: None, lambda position: []
    )


def pass_plainly(entries: IndexEntries, rows: list[Row], damage: DamageList) -> int:
    """How many keys have the next entries, in every way as they should be."""
    for number, (key_hash, (position, store_time)) in enumerate(rows):
        before = len(damage.items())
        if entries.is_over or entries.entry[:2] != (key_hash, position) or not entries.is_chained(key_hash):
            return number
        entries.check_time(store_time)
        if len(damage.items()) > before:
            return number
        entries.step(key_hash)
    return len(rows)


def state_of(entries: IndexEntries) -> tuple[object, ...]:
    return entries.is_over, entries.is_over or entries.entry, entries._number, entries._newest


@pytest.mark.parametrize("count", CASES)
def test_it_stops_where_plain_code_has_something_to_say(tmp_path: Path, count: int) -> None:
    stops = set()

    def case(random: Random) -> int:
        rows = some_rows(random)
        content = bytearray(a_file(tmp_path / "20231114221320123", rows))
        for _ in range(random.randrange(3)):
            at = random.randrange(entry_at(SLOTS, FIRST_ENTRY), entry_at(SLOTS, FIRST_ENTRY + len(rows)))
            content[at : at + 1] = random.choice((b"\0", b"\1", b"\xff", bytes([content[at] ^ 1])))
        known = facts(bytes(content), random)
        plain, compiled = DamageList(Path()), DamageList(Path())
        slow, quick = IndexEntries(known, plain), IndexEntries(known, compiled)
        keys = np.array([(key, *place) for key, place in rows], np.int64).reshape(-1, KEY_WIDTH)
        expected = pass_plainly(slow, rows, plain)
        passed = quick.pass_keys(FoundKeys(keys), 0) if not quick.is_over else 0
        assert passed == expected
        assert state_of(quick) == state_of(slow)
        stops.add(passed == len(rows))
        return len(rows)

    assert run_cases(count, 22, case) >= count
    assert stops == {True, False}


def test_records_are_counted_once_however_many_keys_they_have() -> None:
    keys = FoundKeys(np.array([(1, 5, 0), (2, 5, 0), (3, 9, 0), (4, 9, 0), (5, 9, 0), (6, 12, 0)], np.int64))
    for begin in range(len(keys) + 1):
        for end in range(begin, len(keys) + 1):
            before = {keys[number][1][0] for number in range(begin)}
            assert keys.count_records(begin, end) == len({keys[at][1][0] for at in range(begin, end)} - before)


def test_a_caller_that_cannot_be_right_gets_nothing_done(tmp_path: Path) -> None:
    rows = [(7, (0, STORE_TIME)), (8, (100, STORE_TIME))]
    content = memoryview(a_file(tmp_path / "20231114221320123", rows))
    keys = FoundKeys(np.array([(key, *place) for key, place in rows], np.int64))
    newest = array("i", bytes(4 * SLOTS))

    def match(view: memoryview, *, number: int = 1, end: int = 3) -> int:
        known = array("i", newest)
        return keys.match(0, view, number=number, end=end, begin_time=STORE_TIME, until=2**62, newest=known)

    assert match(content) == 2
    assert match(content, number=0) == match(content, number=4) == match(content, end=2**31) == 0
    assert match(content[: index_file_size(SLOTS, 3) - 1]) == 0
    assert match(content[: index_file_size(SLOTS, 3)]) == 2
    assert ENTRY.size * 3 + entry_at(SLOTS, 0) == index_file_size(SLOTS, 3)
