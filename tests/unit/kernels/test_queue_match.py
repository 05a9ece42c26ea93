"""Records and the entries of their queues: a kernel confirms what is right, and leaves all else to plain code."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from embermq.format.queue_entry import ENTRY
from embermq.format.record import Draft
from embermq.kernels.columns import RECORD_WIDTH
from embermq.kernels.found_records import FoundRecords
from embermq.kernels.memory import address_of
from embermq.kernels.queue_match import EntryTable, confirm_entries
from embermq.kernels.record_scan import scan_records
from embermq.model.flags import SysFlag
from tests.unit.kernels.kernel_builders import CASES, a_log, run_cases, table

TOPICS = (b"t", b"orders", b"payments", b"shipping-events", b"v" * 127, "ü€".encode())
QUEUES = [(topic, queue) for topic in TOPICS for queue in range(3)]


def records_of(
    places: list[tuple[bytes, int, int]], random: Random, flags: dict[int, int] | None = None
) -> FoundRecords:
    """Records of these topics, queues and offsets, with some codes of tags."""
    drafts = [
        Draft(topic, queue, b"x" * random.randrange(9), b"", sys_flag=(flags or {}).get(number, 0))
        for number, (topic, queue, _) in enumerate(places)
    ]
    data = a_log(drafts, offsets=[offset for *_, offset in places])
    records = table(len(places), RECORD_WIDTH)
    assert scan_records(address_of(data), len(data), 0, True, records)[0] == len(places)
    codes = np.array([random.randrange(-(2**31), 2**31) for _ in places], np.int64)
    return FoundRecords(memoryview(data), records, codes, table(0, 3))


def entry_of(records: FoundRecords, number: int) -> bytes:
    record = records[number]
    return ENTRY.pack(record.position, record.size, record.tags_code)


def in_turns(count: int, queues: list[tuple[bytes, int]], first: int = 0) -> list[tuple[bytes, int, int]]:
    return [(*queues[number % len(queues)], first + number // len(queues)) for number in range(count)]


def entries_of(records: FoundRecords, queues: list[tuple[bytes, int]]) -> dict[tuple[bytes, int], bytearray]:
    """What the queues should hold, which take turns."""
    made = {queue: bytearray() for queue in queues}
    for number in range(len(records)):
        made[queues[number % len(queues)]] += entry_of(records, number)
    return made


@pytest.mark.parametrize("queues", [QUEUES[:1], QUEUES], ids=["one", "many"])
def test_right_entries_go_on_from_one_time_to_the_next(queues: list[tuple[bytes, int]]) -> None:
    random, first, tables = Random(1), 1_000, EntryTable()
    pieces = [records_of(in_turns(3 * len(queues), queues, first + 3 * turn), random) for turn in range(4)]
    entries = {queue: b"".join(bytes(entries_of(piece, queues)[queue]) for piece in pieces) for queue in queues}
    for queue in queues:
        tables.offer(*queue, memoryview(entries[queue]), first)
    assert [tables.confirm(piece, 0) for piece in pieces] == [(len(piece), []) for piece in pieces]
    right = list(tables.take_right())
    assert [each[:4] for each in right] == [(*queue, first, first + 12) for queue in queues]
    assert [each.position for each in right] == [pieces[0][number].position for number in range(len(queues))]
    assert list(tables.take_right()) == []


def test_it_stops_for_what_is_not_offered_and_leaves_what_is_not_there() -> None:
    records, tables = records_of(in_turns(6, QUEUES[:3]), Random(2)), EntryTable()
    entries = entries_of(records, QUEUES[:3])
    assert tables.confirm(records, 0) == (0, [])
    tables.offer(*QUEUES[0], memoryview(b""), 0)
    assert tables.confirm(records, 0) == (1, [0])
    tables.offer(*QUEUES[1], memoryview(entries[QUEUES[1]])[: ENTRY.size * 2 - 1], 0)  # the second is cut off
    tables.offer(*QUEUES[2], memoryview(b""), 0)
    assert tables.confirm(records, 1) == (4, [2, 3])
    assert [each[:4] for each in tables.take_right()] == [(*QUEUES[1], 0, 1)]
    tables.offer(*QUEUES[1], memoryview(entries[QUEUES[1]])[ENTRY.size :], 1)  # as if it were in the next file
    assert tables.offered == 1
    assert tables.confirm(records, 4) == (6, [5])
    assert [each[:4] for each in tables.take_right()] == [(*QUEUES[1], 1, 2)]
    tables.ask_again()
    assert tables.confirm(records, 2) == (2, [])


def test_a_gap_is_left_until_what_came_before_is_taken() -> None:
    places = [(b"orders", 0, offset) for offset in (0, 1, 3, 4)]
    records, tables = records_of(places, Random(3)), EntryTable()
    entries = [entry_of(records, 0), entry_of(records, 1), bytes(20), entry_of(records, 2), entry_of(records, 3)]
    tables.offer(b"orders", 0, memoryview(b"".join(entries)), 0)
    assert tables.confirm(records, 0) == (4, [2, 3])
    assert [each[2:4] for each in tables.take_right()] == [(0, 2)]
    assert tables.confirm(records, 2) == (4, [])
    assert [each[2:4] for each in tables.take_right()] == [(3, 5)]


def test_records_of_the_log_alone_have_no_entry() -> None:
    flags = {1: int(SysFlag.PREPARED), 2: int(SysFlag.ROLLED_BACK)}
    records, tables = records_of([(b"orders", 0, 0)] * 3, Random(4), flags), EntryTable()
    tables.offer(b"orders", 0, memoryview(entry_of(records, 0)), 0)
    assert tables.confirm(records, 0) == (3, [])
    assert [each[2:4] for each in tables.take_right()] == [(0, 1)]


@pytest.mark.parametrize("count", CASES)
def test_every_bit_of_an_entry_counts(count: int) -> None:
    def case(random: Random) -> int:
        records, tables = records_of(in_turns(24, QUEUES[:5]), random), EntryTable()
        entries = entries_of(records, QUEUES[:5])
        wrong = random.randrange(24)
        at = wrong // 5 * ENTRY.size + random.randrange(ENTRY.size)
        entries[QUEUES[wrong % 5]][at] ^= 1 << random.randrange(8)
        for queue, data in entries.items():
            tables.offer(*queue, memoryview(data), 0)
        done, left = tables.confirm(records, 0)
        assert done == 24
        # Those behind it in its queue do not follow what was found right, unless it was the first.
        assert left == ([wrong] if wrong < 5 else [*range(wrong, 24, 5)])
        right = {each[:2]: each[2:4] for each in tables.take_right()}
        for number, queue in enumerate(QUEUES[:5]):
            last = len(range(number, 24, 5))
            expected = (0, last) if number != wrong % 5 else (1, last) if wrong < 5 else (0, wrong // 5)
            assert right[queue] == expected
        return 1

    assert run_cases(min(count, 30_000), 1, case) >= 1


def test_tables_that_do_not_fit_are_refused() -> None:
    records = records_of([(b"orders", 0, 0)], Random(5))
    address, size = address_of(records.data), len(records.data)
    slots, queues, left = np.full(4, -1, np.int64), table(2, 9), table(1)
    given, refused = (records.records, records.codes), (-1, 0)
    assert confirm_entries(address, size, *given, 0, slots, queues, left) == (0, 0)
    assert confirm_entries(address, size, *given, 5, slots, queues, left) == (5, 0)
    assert confirm_entries(address, size, *given, 0, slots[:0], queues, left) == (0, 0)
    assert confirm_entries(address, -1, *given, 0, slots, queues, left) == refused
    assert confirm_entries(address, 10, *given, 0, slots, queues, left) == refused  # the topic lies outside
    assert confirm_entries(address, size, *given, -1, slots, queues, left) == refused
    assert confirm_entries(address, size, *given, 0, slots[:3].copy(), queues, left) == refused
    assert confirm_entries(address, size, *given, 0, slots, table(2, 8), left) == refused
    assert confirm_entries(address, size, *given, 0, slots, queues, left[:0]) == refused
    assert confirm_entries(address, size, records.records, records.codes[:0], 0, slots, queues, left) == refused
    assert confirm_entries(address, size, table(1, 5), records.codes, 0, slots, queues, left) == refused
