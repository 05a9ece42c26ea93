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
from embermq.kernels.columns import RECORD_POSITION, RECORD_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.send_rows import SendRows
from embermq.kernels.shares import SHARE_END, write_shares
from embermq.kernels.sockets import PEER_WIDTH, TEXTS, TEXTS_SIZE
from embermq.model.message import Host
from embermq.store.writer import Submitted
from tests.unit.broker.peers import RecordingPeer
from tests.unit.kernels.sent_frames import CASES

HOSTS = (Host("127.0.0.1", 10911), Host("2001:db8::1", 65535))
REGIONS = ("DefaultRegion", "", 'a"b\\c%d', "Größe 中😀")
Fact = tuple[int, int, int, int, int, tuple[int, ...], str]  # opaque, flag, form, queue, offset, positions, unique id

_I32 = 2**31
_facts = st.tuples(
    st.integers(-_I32, _I32 - 1),
    st.sampled_from((0, 0, 0, ONEWAY)),
    st.sampled_from((JSON_FORM, BINARY_FORM)),
    st.integers(0, _I32 - 1),
    st.integers(0, 2**63 - 1),
    st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=40).map(tuple),
    st.from_regex(r"\A[0-9A-Za-z]{1,60}\Z"),
)


def fill(facts: Sequence[Fact]) -> tuple[SendRows, Table]:
    """Rows, and the records of their messages."""
    rows = SendRows(len(facts), sum(len(fact[6].encode()) for fact in facts))
    every = [position for fact in facts for position in fact[5]]
    records = np.full((len(every), RECORD_WIDTH), -1, np.int64)
    records[:, RECORD_POSITION] = every
    at = first = 0
    for row, (opaque, flag, form, queue, offset, positions, unique) in zip(rows.rows, facts, strict=True):
        data = unique.encode()
        rows.scratch[at : at + len(data)] = np.frombuffer(data, np.uint8)
        for place, value in (
            (column.OPAQUE, opaque), (column.ONEWAY, flag // ONEWAY), (column.FORM, form), (column.QUEUE, queue),
            (column.QUEUE_OFFSET, offset), (column.POSITION, positions[0]), (column.UNIQUE_AT, at),
            (column.UNIQUE_SIZE, len(data)), (column.FIRST_DRAFT, first), (column.DRAFTS, len(positions)),
        ):  # fmt: skip
            row[place] = value
        at, first = at + len(data), first + len(positions)
    return rows, records


def by_kernel(facts: Sequence[Fact], *, region: str, host: Host, room: int) -> tuple[bytes, Written]:
    texts = AnswerTexts(region, encode_host(host).hex().upper().encode())
    out = np.zeros(max(room, 1), np.uint8)
    rows, records = fill(facts)
    got = answer_rows(rows, 0, len(facts), records, texts, int(out.ctypes.data), room)
    return out[: got.size].tobytes(), got


def by_broker(facts: Sequence[Fact], *, region: str, host: Host) -> bytes:
    wanted: list[Answerable] = []
    every: list[int] = []
    offsets: list[int] = []
    for opaque, flag, form, queue, offset, positions, unique in facts:
        request = Command(310, {}, b"", opaque, flag, form=form)
        wanted.append((request, len(every), len(positions), queue, unique, NO_FIELDS))
        every += positions
        offsets += range(offset, offset + len(positions))
    submitted = Submitted(offsets, every, [1] * len(every), 0, 0)
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
                tuple(random.randrange(2 ** random.randrange(64)) for _ in range(random.choice((1, 1, 2, 32)))),
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


PLAIN: Fact = (7, 0, JSON_FORM, 1, 2, (3,), "id1")
BATCH: Fact = (7, 0, JSON_FORM, 1, 2, (3, 4, 5), "id1")


@pytest.mark.parametrize("unique", ['a"b', "a b", "", "é", "a\x01", "a-b"])
def test_an_id_that_json_would_have_to_escape_is_left_alone(unique: str) -> None:
    facts = [PLAIN, (*PLAIN[:6], unique), PLAIN]
    written, got = by_kernel(facts, region="r", host=HOSTS[0], room=4096)
    assert (got.rows, got.reason) == (1, NOT_PLAIN)
    assert written == by_broker(facts[:1], region="r", host=HOSTS[0])


@pytest.mark.parametrize("unique", ['a"b', "é中😀", "a-b", "a\x01"])
def test_a_binary_answer_has_any_id(unique: str) -> None:
    facts: list[Fact] = [(7, 0, BINARY_FORM, 1, 2, (3, 4), unique)]
    assert by_kernel(facts, region="r", host=HOSTS[0], room=4096)[0] == by_broker(facts, region="r", host=HOSTS[0])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (column.POSITION, -1), (column.QUEUE_OFFSET, -1), (column.QUEUE, -(2**63)), (column.OPAQUE, 2**31),
        (column.FORM, 2), (column.UNIQUE_AT, 1), (column.UNIQUE_AT, -1), (column.UNIQUE_SIZE, 2**62),
        (column.UNIQUE_SIZE, -1), (column.UNIQUE_AT, 2**63 - 1), (column.DRAFTS, 0), (column.DRAFTS, -1),
        (column.DRAFTS, 4), (column.DRAFTS, 2**63 - 1), (column.FIRST_DRAFT, -1), (column.FIRST_DRAFT, 2**63 - 1),
        (column.FIRST_DRAFT, 1), (column.DRAFTS, -(2**63)),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_is_left_alone(place: int, value: int) -> None:
    rows, records = fill([BATCH])
    rows.rows[0, place] = value
    out = np.zeros(4096, np.uint8)
    texts = AnswerTexts("r", b"00")
    assert answer_rows(rows, 0, 1, records, texts, int(out.ctypes.data), len(out)) == (0, 0, NOT_PLAIN)
    assert not out.any()


def test_a_message_without_a_position_is_left_alone() -> None:
    rows, records = fill([BATCH])
    records[1, RECORD_POSITION] = -1
    out = np.zeros(4096, np.uint8)
    assert answer_rows(rows, 0, 1, records, AnswerTexts("r", b"00"), int(out.ctypes.data), 4096) == (0, 0, NOT_PLAIN)


@pytest.mark.parametrize(("begin", "end"), [(-1, 0), (1, 0), (0, 2)])
def test_rows_that_are_not_there_are_no_rows(begin: int, end: int) -> None:
    rows, records = fill([PLAIN])
    with pytest.raises(ValueError, match="there are 1"):
        answer_rows(rows, begin, end, records, AnswerTexts("r", b"00"), 0, 0)


def shares_by_kernel(
    facts: Sequence[Fact], shares: Table, texts: Sequence[AnswerTexts], room: int
) -> tuple[int, bytes]:
    """How many shares of the rows of `facts` are written, and the bytes of those."""
    peers = np.zeros((len(texts), PEER_WIDTH), np.int64)
    for peer, text in zip(peers, texts, strict=True):
        peer[TEXTS], peer[TEXTS_SIZE] = text.address, text.size
    out = np.zeros(max(room, 1), np.uint8)
    rows, records = fill(facts)
    done = write_shares(
        rows.rows_address, len(facts), peers, shares, int(records.ctypes.data), len(records), rows.scratch_address,
        rows.scratch_size, int(out.ctypes.data), room,
    )  # fmt: skip
    return done, out[: int(shares[done - 1, SHARE_END]) if done else 0].tobytes()


@given(st.lists(_facts, min_size=1, max_size=8), st.data())
def test_every_peer_gets_answers_with_its_own_texts(facts: list[Fact], data: st.DataObject) -> None:
    texts = [AnswerTexts("r", encode_host(host).hex().upper().encode()) for host in HOSTS]
    ends = sorted(data.draw(st.sets(st.integers(0, len(facts)), max_size=4)) | {len(facts)})
    slots = data.draw(st.lists(st.sampled_from((0, 1)), min_size=len(ends), max_size=len(ends)))
    pieces = [
        by_broker(facts[begin:end], region="r", host=HOSTS[slot])
        for begin, end, slot in zip([0, *ends], ends, slots, strict=False)
    ]
    shares = np.array([(end, slot, 0, -1, -1) for end, slot in zip(ends, slots, strict=True)], np.int64)
    room = data.draw(st.integers(0, sum(map(len, pieces)) + 10))
    done, written = shares_by_kernel(facts, shares, texts, room)
    assert written == b"".join(pieces[:done])
    assert done == len(pieces) or len(written) + len(pieces[done]) > room


@pytest.mark.parametrize(("end", "slot"), [(2, 0), (-1, 0), (1, -1), (1, 1), (1, 2**62)])
def test_a_share_that_cannot_be_is_not_written(end: int, slot: int) -> None:
    shares = np.array([(end, slot, 0, -1, -1)], np.int64)
    assert shares_by_kernel([PLAIN], shares, [AnswerTexts("r", b"00")], 4096) == (0, b"")
