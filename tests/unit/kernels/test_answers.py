"""Answers written by a kernel: byte for byte those of the broker."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.send_answers import NO_FIELDS, Answerable, SendAnswers
from embermq.format.command import ONEWAY, Command
from embermq.format.frame import BINARY_FORM, JSON_FORM
from embermq.format.host import encode_host
from embermq.kernels import send_rows as column
from embermq.kernels.answers import ALL_DONE, NOT_PLAIN, OUTPUT_FULL, AnswerTexts, Written, answer_rows
from embermq.kernels.send_rows import SendRows
from embermq.model.message import Host
from embermq.store.writer import Submitted
from tests.unit.broker.peers import RecordingPeer
from tests.unit.kernels.sent_frames import CASES

HOSTS = (Host("127.0.0.1", 10911), Host("2001:db8::1", 65535))
REGIONS = ("DefaultRegion", "", 'a"b\\c%d', "Größe 中😀")
Fact = tuple[int, int, int, int, int, int, str]  # opaque, flag, form, queue, offset, position, unique id

_I32 = 2**31
_facts = st.tuples(
    st.integers(-_I32, _I32 - 1),
    st.sampled_from((0, 0, 0, ONEWAY)),
    st.sampled_from((JSON_FORM, BINARY_FORM)),
    st.integers(0, _I32 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.from_regex(r"\A[0-9A-Za-z]{1,60}\Z"),
)


def fill(facts: Sequence[Fact]) -> SendRows:
    rows = SendRows(len(facts), sum(len(fact[6].encode()) for fact in facts))
    at = 0
    for row, (opaque, flag, form, queue, offset, position, unique) in zip(rows.rows, facts, strict=True):
        data = unique.encode()
        rows.scratch[at : at + len(data)] = np.frombuffer(data, np.uint8)
        for place, value in (
            (column.OPAQUE, opaque), (column.ONEWAY, flag // ONEWAY), (column.FORM, form), (column.QUEUE, queue),
            (column.QUEUE_OFFSET, offset), (column.POSITION, position), (column.UNIQUE_AT, at),
            (column.UNIQUE_SIZE, len(data)),
        ):  # fmt: skip
            row[place] = value
        at += len(data)
    return rows


def by_kernel(facts: Sequence[Fact], *, region: str, host: Host, room: int) -> tuple[bytes, Written]:
    texts = AnswerTexts(region, encode_host(host).hex().upper().encode())
    out = np.zeros(max(room, 1), np.uint8)
    got = answer_rows(fill(facts), 0, len(facts), texts, int(out.ctypes.data), room)
    return out[: got.size].tobytes(), got


def by_broker(facts: Sequence[Fact], *, region: str, host: Host) -> bytes:
    wanted: list[Answerable] = [
        (Command(310, {}, b"", opaque, flag, form=form), index, 1, queue, unique, NO_FIELDS)
        for index, (opaque, flag, form, queue, _, _, unique) in enumerate(facts)
    ]
    submitted = Submitted([fact[4] for fact in facts], [fact[5] for fact in facts], [1] * len(facts), 0, 0)
    return SendAnswers(region, host_of=lambda peer: host).stored(RecordingPeer(), wanted, submitted)


@given(st.lists(_facts, max_size=8), st.sampled_from(REGIONS), st.sampled_from(HOSTS))
def test_the_bytes_are_the_brokers(facts: list[Fact], region: str, host: Host) -> None:
    expected = by_broker(facts, region=region, host=host)
    data, got = by_kernel(facts, region=region, host=host, room=len(expected))
    assert data == expected
    assert got == (len(facts), len(expected), ALL_DONE)


@pytest.mark.parametrize("cases", CASES)
def test_many_answers(cases: int) -> None:
    random = Random(cases)
    for _ in range(cases // 100):
        facts: list[Fact] = [
            (
                random.randrange(-(2 ** random.randrange(32)), 2 ** random.randrange(32)),
                random.choice((0, 0, ONEWAY)),
                random.choice((JSON_FORM, BINARY_FORM)),
                random.randrange(2 ** random.randrange(32)),
                random.randrange(2 ** random.randrange(64)),
                random.randrange(2 ** random.randrange(64)),
                random.randbytes(random.randrange(1, 30)).hex(),
            )
            for _ in range(100)
        ]
        region, host = random.choice(REGIONS), random.choice(HOSTS)
        expected = by_broker(facts, region=region, host=host)
        assert by_kernel(facts, region=region, host=host, room=len(expected) + 5)[0] == expected


@given(st.lists(_facts, min_size=1, max_size=5), st.data())
def test_it_stops_where_the_next_answer_does_not_fit(facts: list[Fact], data: st.DataObject) -> None:
    ends = [len(by_broker(facts[:count], region="r", host=HOSTS[0])) for count in range(len(facts) + 1)]
    room = data.draw(st.integers(0, ends[-1]))
    written, got = by_kernel(facts, region="r", host=HOSTS[0], room=room)
    assert written == by_broker(facts[: got.rows], region="r", host=HOSTS[0])
    if got.reason == OUTPUT_FULL:
        assert ends[got.rows] <= room < ends[got.rows + 1]
    else:
        assert got == (len(facts), ends[-1], ALL_DONE)


PLAIN: Fact = (7, 0, JSON_FORM, 1, 2, 3, "id1")


@pytest.mark.parametrize("unique", ['a"b', "a b", "", "é", "a\x01", "a-b"])
def test_an_id_that_json_would_have_to_escape_is_left_alone(unique: str) -> None:
    facts = [PLAIN, (*PLAIN[:6], unique), PLAIN]
    written, got = by_kernel(facts, region="r", host=HOSTS[0], room=4096)
    assert (got.rows, got.reason) == (1, NOT_PLAIN)
    assert written == by_broker(facts[:1], region="r", host=HOSTS[0])


@pytest.mark.parametrize("unique", ['a"b', "é中😀", "a-b", "a\x01"])
def test_a_binary_answer_has_any_id(unique: str) -> None:
    facts: list[Fact] = [(7, 0, BINARY_FORM, 1, 2, 3, unique)]
    assert by_kernel(facts, region="r", host=HOSTS[0], room=4096)[0] == by_broker(facts, region="r", host=HOSTS[0])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (column.POSITION, -1), (column.QUEUE_OFFSET, -1), (column.QUEUE, -(2**63)), (column.OPAQUE, 2**31),
        (column.FORM, 2), (column.UNIQUE_AT, 1), (column.UNIQUE_AT, -1), (column.UNIQUE_SIZE, 2**62),
        (column.UNIQUE_SIZE, -1), (column.UNIQUE_AT, 2**63 - 1),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_is_left_alone(place: int, value: int) -> None:
    rows = fill([PLAIN])
    rows.rows[0, place] = value
    out = np.zeros(4096, np.uint8)
    texts = AnswerTexts("r", b"00")
    assert answer_rows(rows, 0, 1, texts, int(out.ctypes.data), len(out)) == (0, 0, NOT_PLAIN)
    assert not out.any()


@pytest.mark.parametrize(("begin", "end"), [(-1, 0), (1, 0), (0, 2)])
def test_rows_that_are_not_there_are_no_rows(begin: int, end: int) -> None:
    with pytest.raises(ValueError, match="there are 1"):
        answer_rows(fill([PLAIN]), begin, end, AnswerTexts("r", b"00"), 0, 0)
