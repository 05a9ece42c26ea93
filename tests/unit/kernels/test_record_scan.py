"""What is found in log memory is what scan_record finds: in RocketMQ's own stores, and in damaged ones."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.format.record import Scanned, encode_blank, record_size
from embermq.kernels.columns import (
    CHANGED,
    CUT_OFF,
    ENDED,
    FULL,
    MISPLACED,
    MISUSED,
    NO_MAGIC,
    NOT_TEXT,
    RECORD_BODY_AT,
    RECORD_BODY_SIZE,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_PREPARED_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_PROPERTIES_SIZE,
    RECORD_QUEUE,
    RECORD_SIZE,
    RECORD_STORE_TIME,
    RECORD_SYS_FLAG,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
    UNEVEN,
)
from embermq.kernels.memory import address_of
from embermq.kernels.record_scan import scan_records
from tests.conftest import Golden
from tests.unit.kernels.kernel_builders import (
    CASES,
    HOSTS,
    a_log,
    damaged,
    random_draft,
    run_cases,
    scan_plainly,
    shortened,
    table,
)

STORES = sorted(
    path.name.removesuffix(".tar.xz") for path in (Path(__file__).parents[2] / "golden/data/stores").glob("*.xz")
)


def scan(data: bytes, position: int, *, check_body: bool = True, room: int = 100) -> tuple[list[Any], int, int]:
    """What the kernel finds, in the form of scan_plainly."""
    records = table(room, RECORD_WIDTH)
    count, end, reason = scan_records(address_of(data), len(data), position, check_body, records)
    return [scanned_of(data, row) for row in records[:count].tolist()], end, reason


def scanned_of(data: bytes, row: list[int]) -> Scanned:
    topic_at, properties_at, size = row[RECORD_TOPIC_AT], row[RECORD_PROPERTIES_AT], row[RECORD_PROPERTIES_SIZE]
    topic = data[topic_at : topic_at + row[RECORD_TOPIC_SIZE]]
    # The body's place is not in a Scanned, but the sizes of all parts add up only if it is right.
    v2 = row[RECORD_BODY_AT] + row[RECORD_BODY_SIZE] + 2 == topic_at
    flags = row[RECORD_SYS_FLAG]
    assert record_size(len(topic), row[RECORD_BODY_SIZE], size, flags, v2) == row[RECORD_SIZE]
    return Scanned(
        row[RECORD_SIZE],
        topic.decode(),
        row[RECORD_QUEUE],
        row[RECORD_OFFSET],
        row[RECORD_POSITION],
        flags,
        row[RECORD_STORE_TIME],
        data[properties_at : properties_at + size],
        row[RECORD_PREPARED_POSITION],
    )


@pytest.mark.parametrize("name", STORES)
def test_a_store_of_rocketmq(golden: Golden, name: str) -> None:
    files = sorted((golden.store(name) / "commitlog").iterdir())
    assert files
    random = Random(name)
    for path in files:
        data, position = path.read_bytes(), int(path.name)
        for check_body in (True, False):
            plain = scan_plainly(data, position, check_body=check_body)
            assert scan(data, position, check_body=check_body, room=len(plain[0]) + 1) == plain
        end = min(plain[1] + 500, len(data))
        for _ in range(30):
            copy = damaged(random, data[:end])
            plain = scan_plainly(copy, position, check_body=True)
            assert scan(copy, position, room=len(plain[0]) + 1) == plain


@pytest.mark.parametrize("count", CASES)
def test_random_logs_most_of_them_damaged(count: int) -> None:
    reasons = set()

    def case(random: Random) -> int:
        position = random.choice((0, 1205, 2**40))
        drafts = [random_draft(random) for _ in range(random.randrange(5))]
        log = a_log(drafts, position=position, store_host=random.choice(HOSTS))
        log += random.choice((b"", bytes(4), bytes(100), encode_blank(92), encode_blank(92) + bytes(92)))
        for _ in range(20):
            data = damaged(random, log)
            check_body = random.random() < 0.5
            plain = scan_plainly(data, position, check_body=check_body)
            assert scan(data, position, check_body=check_body) == plain
            reasons.add(plain[2])
        return 20

    assert run_cases(count, 4, case) >= count
    assert reasons == {ENDED, CUT_OFF, NO_MAGIC, MISPLACED, UNEVEN, CHANGED, NOT_TEXT}


@given(
    data=st.binary(max_size=200),
    head=st.sampled_from([b"", b"\0\0\0\x60\xda\xa3\x20\xa7", b"\0\0\0\x60\xda\xa3\x20\xab"]),
)
def test_arbitrary_bytes(data: bytes, head: bytes) -> None:
    assert scan(head + data, 0) == scan_plainly(head + data, 0, check_body=True)


def test_every_place_where_a_log_may_be_cut_off() -> None:
    random = Random(1)
    log = a_log([random_draft(random) for _ in range(3)])
    for size in range(len(log) + 1):
        assert scan(log[:size], 0) == scan_plainly(log[:size], 0, check_body=True)


def test_a_record_that_is_shorter_than_its_parts() -> None:
    random = Random(2)
    for _ in range(20):
        log = a_log([random_draft(random)])
        for count in range(len(log) - 8):
            data = shortened(log, count)
            assert scan(data, 0) == scan_plainly(data, 0, check_body=True)


def test_a_full_table_ends_a_scan_that_can_go_on() -> None:
    random = Random(1)
    log = a_log([random_draft(random) for _ in range(3)])
    whole, end, reason = scan(log, 0)
    assert (len(whole), end, reason) == (3, len(log), ENDED)
    found, at, reason = scan(log, 0, room=2)
    assert (found, reason) == (whole[:2], FULL)
    assert scan(log[at:], at) == (whole[2:], len(log) - at, ENDED)


def test_a_caller_that_cannot_be_right_gets_nothing_done() -> None:
    log = a_log([random_draft(Random(1))])
    address, records = address_of(log), table(1, RECORD_WIDTH)
    assert scan_records(address, -1, 0, True, records) == (0, 0, MISUSED)
    assert scan_records(address, len(log), -1, True, records) == (0, 0, MISUSED)
    assert scan_records(address, len(log), 2**63 - 1, True, records) == (0, 0, MISUSED)
    assert scan_records(address, len(log), 0, True, table(1, RECORD_WIDTH - 1)) == (0, 0, MISUSED)
