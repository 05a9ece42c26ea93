"""Records of many drafts, written into memory, are those of encode_drafts."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.format.record import Draft, decode_record
from embermq.kernels.columns import DONE, DRAFT_WIDTH, FULL, MISUSED, OUTSIDE, RECORD_WIDTH, UNFIT
from embermq.kernels.memory import address_of
from embermq.kernels.record_scan import scan_records
from embermq.kernels.records import encode_records
from tests.unit.kernels.kernel_builders import (
    CASES,
    HOSTS,
    NUMBERS,
    STORE_TIME,
    SUFFIXES,
    Sources,
    random_draft,
    run_cases,
    table,
)

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
DRAFTS = st.builds(
    Draft,
    topic=st.text(max_size=150).map(str.encode),
    queue=I32,
    body=st.binary(max_size=300),
    properties=st.binary(max_size=60).map(lambda data: data + b"\x02"),
    flag=I32,
    sys_flag=I32,
    born_time=I64,
    born_host=st.sampled_from(HOSTS),
    reconsume_times=I32,
    prepared_position=I64,
)


def check(sources: Sources, size: int, position: int) -> int:
    """Compare kernel and plain code; return the reason at which both stop."""
    target = bytearray(b"\xee" * size)
    count, used, reason, records = sources.encode(target, position=position)
    data, sizes, plain_reason = sources.encode_plainly(size, position=position)
    assert (count, used, reason) == (len(sizes), len(data), plain_reason)
    assert target[:used] == data
    assert target[used:] == b"\xee" * (size - used)
    scanned = table(count + 1, RECORD_WIDTH)
    assert scan_records(address_of(target), used, position, True, scanned)[:2] == (count, used)
    assert np.array_equal(records, scanned[:count])  # both tables say the same of the records
    return reason


@given(
    drafts=st.lists(st.tuples(DRAFTS, I64), max_size=8),
    store_host=st.sampled_from(HOSTS),
    suffix=st.sampled_from(SUFFIXES),
    position=st.integers(0, 2**62),
    size=st.integers(0, 3000),
)
def test_the_bytes_are_those_of_plain_code(
    drafts: list[tuple[Draft, int]], store_host: bytes, suffix: bytes, position: int, size: int
) -> None:
    sources = Sources(store_host=store_host, suffix=suffix)
    for draft, offset in drafts:
        sources.add(draft, offset)
    assert check(sources, size, position) in (DONE, FULL)


@pytest.mark.parametrize("count", CASES)
def test_random_drafts_some_of_them_hostile(count: int) -> None:
    reasons = set()

    def case(random: Random) -> int:
        sources = Sources(store_host=random.choice(HOSTS), suffix=random.choice(SUFFIXES))
        number = random.choice((1, 1, 2, 5, 32))
        for _ in range(number):
            sources.add(random_draft(random), random.randrange(2**40))
        if random.random() < 0.4:
            row = random.choice(sources.rows)
            row[random.randrange(len(row))] = random.choice((*NUMBERS, len(sources.data), len(sources.data) + 1))
        reasons.add(check(sources, random.randrange(600 * number), random.choice((0, 1205, 2**40))))
        return number

    assert run_cases(count, 3, case) >= count
    assert reasons == {DONE, FULL, OUTSIDE, UNFIT}


@pytest.mark.parametrize("topic_size", [0, 1, 126, 127, 128, 129, 255, 256, 32_766, 32_767, 32_768])
@pytest.mark.parametrize("host", HOSTS, ids=["ipv4", "ipv6"])
def test_topics_of_both_versions(topic_size: int, host: bytes) -> None:
    sources = Sources(store_host=host)
    sources.add(Draft(b"t" * topic_size, 3, b"body", b"A\x01b\x02", born_host=host), 7)
    assert check(sources, 100_000, 0) == (DONE if topic_size < 32_768 else UNFIT)


@pytest.mark.parametrize("suffix", SUFFIXES, ids=["bare", "suffix"])
@pytest.mark.parametrize("left", [-1, 0, 1])
def test_properties_as_long_as_they_may_be(suffix: bytes, left: int) -> None:
    sources = Sources(suffix=suffix)
    sources.add(Draft(b"orders", 0, b"x", b"\x02" * (32_767 - len(suffix) - left)), 0)
    assert check(sources, 100_000, 0) == (UNFIT if left < 0 else DONE)


def test_a_suffix_never_becomes_a_part_of_the_last_value() -> None:
    sources = Sources(suffix=SUFFIXES[1])
    for properties in (b"", b"A\x01b\x02", b"A\x01b"):
        sources.add(Draft(b"orders", 0, b"x", properties), 0)
    target = bytearray(1000)
    count, _, reason, _ = sources.encode(target)
    assert (count, reason) == (2, UNFIT)
    assert decode_record(bytes(target), 0).property_map() == {
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "ember",
    }


def test_a_record_is_written_where_it_just_fits() -> None:
    sources = Sources()
    for _ in range(3):
        sources.add(Draft(b"orders", 0, b"x" * 100, b""), 0)
    _, sizes, _ = sources.encode_plainly(10_000)
    for room in range(sum(sizes) + 2):
        count, used, reason, _ = sources.encode(bytearray(room))
        whole = [sum(sizes[:number]) for number in range(4)]
        assert used == max(end for end in whole if end <= room)
        assert (count, reason) == (whole.index(used), DONE if room >= sum(sizes) else FULL)


def test_a_caller_that_cannot_be_right_gets_nothing_done() -> None:
    sources = Sources()
    sources.add(Draft(b"orders", 0, b"x", b""), 0)
    drafts, records = np.array(sources.rows, np.int64), table(1, RECORD_WIDTH)
    topics, hosts = sources.topics.rows, sources.hosts.rows
    target = bytearray(b"\xee" * 200)
    address = address_of(target)
    good = [drafts, address, 0, address, 0, topics, hosts, 0, 0, 0, STORE_TIME, 0, address, 200, records]
    wrong = {
        0: [table(1, DRAFT_WIDTH - 1)],
        2: [-1, -(2**63)],
        4: [-1, -(2**63)],
        5: [table(3, 3)],
        6: [table(1, 1), table(1, 2), table(0, 2)],
        7: [-1, len(hosts), 2**63 - 1],
        9: [-1, 32_768, 2**63 - 1],
        11: [-1, 2**63 - 200],
        13: [-1, -(2**63)],
        14: [table(0, RECORD_WIDTH), table(1, RECORD_WIDTH + 1)],
    }
    for at, values in wrong.items():
        for value in values:
            arguments = [*good[:at], value, *good[at + 1 :]]
            assert encode_records(*arguments) == (0, 0, MISUSED), (at, value)  # type: ignore[arg-type]
    assert target == b"\xee" * 200
