"""What kernels tell queues and index of records is what plain code tells them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.format.queue_entry import ENTRY, QUEUE_ENTRY_SIZE
from embermq.format.record import Draft
from embermq.kernels.columns import (
    DIVIDED,
    DONE,
    FULL,
    KEY_WIDTH,
    MISUSED,
    NOT_TEXT,
    OUTSIDE,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_SIZE,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
    RUN_COUNT,
    RUN_WIDTH,
    SCHEDULED,
    UNFIT,
)
from embermq.kernels.compiling import Table
from embermq.kernels.dispatch import find_codes_and_keys
from embermq.kernels.memory import address_of
from embermq.kernels.queue_runs import group_entries
from embermq.kernels.record_scan import scan_records
from embermq.log.dispatching import iter_placed, tags_codes
from embermq.log.index_keys import Row, keys_of, rows_of
from embermq.log.placed import Placed, PlacedBatch
from embermq.model.flags import NOT_QUEUED
from embermq.model.topic import SCHEDULE_TOPIC
from tests.unit.kernels.kernel_builders import (
    CASES,
    NUMBERS,
    STORE_TIME,
    TOPICS,
    a_log,
    random_draft,
    random_properties,
    run_cases,
    table,
)

TEXT_TOPICS = [topic for topic in TOPICS if topic and len(topic) < 255]
NAMES = (b"TAGS", b"KEYS", b"UNIQ_KEY", b"WAIT", b"INNE", b"INNERX", b"INNER", b"TAGSX", b"XKEYS", b"UNIQ", b"")


class Log:
    """Log memory and the table of its records."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.drafts = drafts
        self.data = a_log(drafts)
        self.records = table(len(drafts), RECORD_WIDTH)
        assert scan_records(address_of(self.data), len(self.data), 0, True, self.records)[0] == len(drafts)

    def placed(self) -> list[Placed]:
        return list(iter_placed(memoryview(self.data), 0, ()))

    def find(self, *, after: int = -1, room: int = 500) -> tuple[int, list[int], list[Row], int]:
        """Records taken, codes, keys and reason."""
        codes, keys = np.full(len(self.records), 77, np.int64), table(room, KEY_WIDTH)
        count, found, reason = find_codes_and_keys(
            address_of(self.data), len(self.data), self.records, after, codes, keys
        )
        rows = [(code, (position, time)) for code, position, time in keys[:found].tolist()]
        return count, codes[:count].tolist(), rows, reason

    def group(self, codes: Table) -> tuple[list[tuple[bytes, int, int, bytes]], int]:
        """The runs as topic, queue, offset and entries, and the reason."""
        runs, target = table(len(self.records), RUN_WIDTH), bytearray(len(self.records) * QUEUE_ENTRY_SIZE)
        count, entries, reason = group_entries(
            address_of(self.data), len(self.data), self.records, codes, address_of(target), len(target), runs
        )
        assert runs[:count, RUN_COUNT].sum() == entries
        found = []
        for topic_at, topic_size, queue, offset, begin, size in runs[:count].tolist():
            part = target[begin * QUEUE_ENTRY_SIZE : (begin + size) * QUEUE_ENTRY_SIZE]
            found.append((self.data[topic_at : topic_at + topic_size], queue, offset, bytes(part)))
        return found, reason


def a_draft(properties: bytes, **fields: object) -> Draft:
    return Draft(**{"topic": b"orders", "queue": 0, "body": b"x", "properties": properties, **fields})  # type: ignore[arg-type]


def check(log: Log, after: int) -> int:
    """Compare codes and keys with plain code, up to where the kernel stops; return why it does."""
    count, codes, keys, reason = log.find(after=after)
    ended = Log(log.drafts[:count])
    assert codes == [item.tags_code for item in ended.placed()]
    assert codes == tags_codes(log.drafts[:count], STORE_TIME, ())
    assert keys == rows_of(ended.placed(), after=after)
    return reason


@pytest.mark.parametrize("count", CASES)
def test_codes_and_keys_of_random_records(count: int) -> None:
    def case(random: Random) -> int:
        number = random.choice((1, 2, 5, 20))
        drafts = [
            random_draft(
                random,
                topic=random.choice(TEXT_TOPICS),
                properties=random_properties(random, names=NAMES),
                sys_flag=random.choice((0, 4, 8, 12, 15, -1)),
            )
            for _ in range(number)
        ]
        log = Log(drafts)
        assert check(log, random.choice((-1, 0, len(log.data) // 2, len(log.data)))) == DONE
        return number

    assert run_cases(count, 5, case) >= count


@given(pieces=st.lists(st.tuples(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY"]), st.text(max_size=12)), max_size=6))
def test_any_text_as_tags_and_keys(pieces: list[tuple[str, str]]) -> None:
    properties = "".join(f"{name}\x01{value}\x02" for name, value in pieces).encode()
    assert check(Log([a_draft(properties)]), -1) in (DONE, DIVIDED)


@given(properties=st.text("TAGSKEYUNIQ_ \x01\x02é", max_size=40))
def test_properties_that_nobody_wrote(properties: str) -> None:
    assert check(Log([a_draft(properties.encode())]), -1) == DONE


@pytest.mark.parametrize(
    "draft, reason",
    [
        (a_draft(b"DELAY\x013\x02", topic=SCHEDULE_TOPIC.encode()), SCHEDULED),
        (a_draft(b"INNER_NUM\x013\x02INNER_BASE\x0112\x02"), DIVIDED),
        (a_draft(b"A\x01b\x02INNER_MULTI_DISPATCH\x01%LMQ%a\x02"), DIVIDED),
        (a_draft(b"TAGS\x01\xff\x02"), NOT_TEXT),
        (a_draft(b"KEYS\x01a \xe2\x82\x02"), NOT_TEXT),
        (a_draft(b"UNIQ_KEY\x01\xc0\x80\x02"), NOT_TEXT),
    ],
    ids=["schedule", "inner", "light", "tags", "keys", "unique"],
)
def test_what_plain_code_treats_in_a_way_of_its_own_stops_a_kernel(draft: Draft, reason: int) -> None:
    usual = a_draft(b"TAGS\x01TagA\x02UNIQ_KEY\x01id\x02")
    count, codes, keys, found = Log([usual, draft, usual]).find()
    assert (count, found) == (1, reason)
    assert codes == tags_codes([usual], STORE_TIME, ())
    assert len(keys) == 1


def test_a_topic_like_the_schedule_topic_is_usual() -> None:
    names = [SCHEDULE_TOPIC[:-1] + "x", SCHEDULE_TOPIC[:-1], SCHEDULE_TOPIC + "X", "x" * len(SCHEDULE_TOPIC)]
    assert check(Log([a_draft(b"DELAY\x013\x02", topic=name.encode()) for name in names]), -1) == DONE


def test_of_a_record_whose_keys_have_no_room_none_is_counted() -> None:
    properties = b"UNIQ_KEY\x01id\x02KEYS\x01a b c\x02"
    log = Log([a_draft(properties)] * 3)
    whole = rows_of(log.placed(), after=-1)
    each = len(keys_of(properties))
    for room in range(3 * each + 1):
        count, _, keys, reason = log.find(room=room)
        assert (count, reason) == (room // each, DONE if room == 3 * each else FULL)
        assert keys == whole[: count * each]


@pytest.mark.parametrize("count", CASES)
def test_entries_by_queue(count: int) -> None:
    def case(random: Random) -> int:
        number, queues = random.choice((1, 5, 40)), random.randrange(1, 5)
        drafts = [
            a_draft(b"", topic=random.choice(TOPICS), queue=random.randrange(queues), body=b"x" * random.randrange(9))
            for _ in range(number)
        ]
        log = Log(drafts)
        following: dict[tuple[bytes, int], int] = {}
        for draft, record in zip(drafts, log.records, strict=True):
            key = draft.topic, draft.queue
            record[RECORD_OFFSET] = following[key] = following.get(key, 10 * draft.queue - 1) + 1
        codes = np.array([random.choice((0, -1, 2**31 - 1, -(2**31))) for _ in drafts], np.int64)
        positions, sizes = log.records[:, RECORD_POSITION].tolist(), log.records[:, RECORD_SIZE].tolist()
        batch = PlacedBatch(
            drafts, log.records[:, RECORD_OFFSET].tolist(), positions, sizes, codes.tolist(), STORE_TIME
        )
        expected = [(run.topic, run.queue, run.offset, b"".join(run.entries)) for run in batch.runs()]
        assert log.group(codes) == (expected, DONE)
        return number

    assert run_cases(count, 6, case) >= count


@pytest.mark.parametrize("count", CASES)
def test_gaps_begin_new_runs_and_records_of_the_log_alone_have_no_entry(count: int) -> None:
    def case(random: Random) -> int:
        number = random.choice((1, 3, 20))
        flags = [random.choice((0, 0, 4, 8, 12)) for _ in range(number)]
        log = Log([a_draft(b"", queue=random.randrange(2), sys_flag=flag) for flag in flags])
        codes = np.arange(number)
        runs: list[tuple[bytes, int, int, bytes]] = []
        newest: dict[int, int] = {}
        for index, (draft, record) in enumerate(zip(log.drafts, log.records, strict=True)):
            record[RECORD_OFFSET] = offset = random.choice((index, index // 2, random.choice(NUMBERS)))
            if draft.sys_flag & NOT_QUEUED:
                continue
            entry = ENTRY.pack(record[RECORD_POSITION], record[RECORD_SIZE], index)
            run = newest.get(draft.queue)
            if run is not None and (offset - runs[run][2]) * QUEUE_ENTRY_SIZE == len(runs[run][3]):
                runs[run] = (*runs[run][:3], runs[run][3] + entry)
            else:
                newest[draft.queue] = len(runs)
                runs.append((draft.topic, draft.queue, offset, entry))
        assert log.group(codes) == (runs, DONE)
        return number

    assert run_cases(count, 7, case) >= count


def test_no_run_goes_on_beyond_the_last_offset() -> None:
    log = Log([a_draft(b"")] * 2)
    log.records[:, RECORD_OFFSET] = 2**63 - 1, -(2**63)
    runs, reason = log.group(np.zeros(2, np.int64))
    assert ([run[2] for run in runs], reason) == ([2**63 - 1, -(2**63)], DONE)


@pytest.mark.parametrize("column", [RECORD_TOPIC_AT, RECORD_TOPIC_SIZE, RECORD_PROPERTIES_AT])
@pytest.mark.parametrize("number", [number for number in NUMBERS if not 0 <= number <= 100])
def test_a_table_that_leads_outside_of_the_memory_stops_a_kernel(column: int, number: int) -> None:
    log = Log([a_draft(b"TAGS\x01a\x02")] * 2)
    log.records[1, column] = number
    assert log.find()[::3] == (1, OUTSIDE)
    if column != RECORD_PROPERTIES_AT:
        assert log.group(np.zeros(2, np.int64)) == ([], OUTSIDE)


def test_a_size_that_no_entry_holds_stops_a_kernel() -> None:
    log = Log([a_draft(b"")])
    for size in (-1, 2**31):
        log.records[0, RECORD_SIZE] = size
        assert log.group(np.zeros(1, np.int64)) == ([], UNFIT)


def test_a_caller_that_cannot_be_right_gets_nothing_done() -> None:
    log = Log([a_draft(b"")])
    address, size, codes = address_of(log.data), len(log.data), np.zeros(1, np.int64)
    keys, runs, target = table(9, KEY_WIDTH), table(1, RUN_WIDTH), bytearray(QUEUE_ENTRY_SIZE)
    narrow, none = table(1, RECORD_WIDTH - 1), np.zeros(0, np.int64)
    for wrong in (
        (address, -1, log.records, 0, codes, keys),
        (address, size, narrow, 0, codes, keys),
        (address, size, log.records, 0, none, keys),
        (address, size, log.records, 0, codes, table(9, 2)),
    ):
        assert find_codes_and_keys(*wrong) == (0, 0, MISUSED)
    to, room = address_of(target), len(target)
    assert group_entries(address, -1, log.records, codes, to, room, runs) == (0, 0, MISUSED)
    assert group_entries(address, size, narrow, codes, to, room, runs) == (0, 0, MISUSED)
    assert group_entries(address, size, log.records, none, to, room, runs) == (0, 0, MISUSED)
    assert group_entries(address, size, log.records, codes, to, room, table(1, 5)) == (0, 0, MISUSED)
    assert group_entries(address, size, log.records, codes, to, room - 1, runs) == (0, 0, FULL)
    assert group_entries(address, size, log.records, codes, to, room, runs[:0]) == (0, 0, FULL)
