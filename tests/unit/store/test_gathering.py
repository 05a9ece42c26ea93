"""Reads as bytes: what an ordinary read finds, by plain code and by kernels, whatever the queue is like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from embermq.clock import SystemClock
from embermq.errors import CorruptRecord
from embermq.files.file_chain import FileChain
from embermq.format.queue_entry import PRE_BLANK_SIZE, QUEUE_ENTRY_SIZE, QueueEntry, encode_queue_entry
from embermq.kernels import loading
from embermq.log.commit_log import CommitLog
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.placed import Run
from embermq.model.subscription import TagFilter
from embermq.store.gathering import FoundBytes, Gather, read_bytes
from embermq.store.reading import Accept, read_queue
from tests.builders import a_placed, a_store, some_messages

FILE_SIZE = 4_096
FILES = 4
BEGIN = 1_000  # offsets before this have no message


class Place(NamedTuple):
    """A log of random bytes, and a queue with entries of all kinds for it."""

    log: CommitLog
    queue: ConsumeQueue


@pytest.fixture(params=["plain", "compiled"])
def gather(request: pytest.FixtureRequest) -> Gather | None:
    if request.param == "plain":
        return None
    loading.load()
    from embermq.store.gather_compiled import CompiledGather

    return CompiledGather(buffer_size=20_000)  # which some answers do not fit into


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    random = Random(7)
    chain = FileChain(tmp_path / "log", FILE_SIZE)
    for number in range(FILES):
        chain.append_file().append(random.randbytes(FILE_SIZE if number < FILES - 1 else FILE_SIZE // 2))
    queue = ConsumeQueue(tmp_path / "queue", "orders", 0, file_size=QUEUE_ENTRY_SIZE * 700)
    queue.put([a_placed(BEGIN, size=10)])
    queue.put_run(Run(b"orders", 0, BEGIN + 1, [encode_queue_entry(entry) for entry in iter_entries(random, 3_000)]))
    yield Place(CommitLog(chain, store_host=bytes(8), clock=SystemClock()), queue)
    queue.close()
    chain.close()


def iter_entries(random: Random, count: int) -> Iterator[QueueEntry]:
    """Runs of records side by side, records here and there, and now and then what is no record."""
    while count > 0:
        position, size = random.randrange(FILE_SIZE * FILES), random.choice((1, 10, 100, 300))
        length = random.choice((1, 1, 2, 10, 40))
        for _ in range(length):
            yield QueueEntry(position, size, random.choice((1, 2, 2**32 + 1, -5)))
            position += size
        if random.random() < 0.1:
            yield random.choice(
                (
                    QueueEntry(0, PRE_BLANK_SIZE, 0), QueueEntry(-1, 5, 1), QueueEntry(7, 0, 1), QueueEntry(7, -3, 1),
                    QueueEntry(2**63 - 1, 2**31 - 1, 1), QueueEntry(FILE_SIZE - 1, 2, 1),
                    QueueEntry(FILE_SIZE * FILES, 1, 1), QueueEntry(-(2**63), 1, 1),
                )
            )  # fmt: skip
            count -= 1
        count -= length


def expected(place: Place, offset: int, *, limit: int, max_bytes: int, accept: Accept | None) -> object:
    """What an ordinary read finds: outcome, offsets, how many, and their bytes; or why it finds nothing."""
    try:
        found = read_queue(place.queue, place.log, offset, limit=limit, max_bytes=max_bytes, accept=accept)
    except CorruptRecord as error:
        return str(error)
    data = b"".join(part for _, _, part in found.records)
    return found.status, found.next_offset, found.min_offset, found.max_offset, len(found.records), len(data), data


def given(
    place: Place, offset: int, *, limit: int, max_bytes: int, accept: Accept | None, gather: Gather | None
) -> object:
    try:
        found = read_bytes(
            place.queue, place.log, offset, limit=limit, max_bytes=max_bytes, accept=accept, gather=gather
        )
    except CorruptRecord as error:
        return str(error)
    return (*found[:6], b"".join(found.parts))


def compare(place: Place, gather: Gather | None, random: Random, count: int) -> int:
    """Read here and there both ways; how many records that gave."""
    records = 0
    for _ in range(count):
        offset = random.choice((random.randrange(BEGIN, place.queue.max_offset), random.randrange(-5, 5_000)))
        limit, max_bytes = random.choice((1, 3, 32, 1_000)), random.choice((1, 50, 700, 5_000, 1 << 20))
        accept = random.choice((None, None, None, TagFilter(frozenset("x"), frozenset((1,))).accepts_code))
        wanted = expected(place, offset, limit=limit, max_bytes=max_bytes, accept=accept)
        got = given(place, offset, limit=limit, max_bytes=max_bytes, accept=accept, gather=gather)
        assert got == wanted
        if isinstance(wanted, tuple):
            records += wanted[4]
    return records


@pytest.mark.parametrize("cases", [3_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_a_random_queue_is_read_as_an_ordinary_read_does(cases: int, place: Place, gather: Gather | None) -> None:
    assert place.queue.max_offset > 3 * 700, "more than three files"
    assert compare(place, gather, Random(cases), cases) > cases


def test_so_is_one_whose_first_records_are_gone(place: Place, gather: Gather | None) -> None:
    random = Random(2)
    for number in range(1, FILES):
        place.log.chain.delete_before(number * FILE_SIZE)
        assert len(place.log.chain.files) == FILES - number
        compare(place, gather, random, 700)
    place.queue.delete_before(place.log.chain.begin)
    compare(place, gather, random, 700)


def test_records_that_lie_side_by_side_are_one_piece(tmp_path: Path, gather: Gather | None) -> None:
    with a_store(tmp_path) as store:
        store.put_many([replace(message, queue=0) for message in some_messages(20)])
        store.put_many([replace(message, queue=1) for message in some_messages(1)])
        store.put_many([replace(message, queue=0) for message in some_messages(20, size=1_000)])
        store.settle()
        queue, log = store._parts.queues.find("orders", 0), store._parts.commit_log
        assert len(read_bytes(queue, log, 0, limit=20, max_bytes=1 << 20, gather=gather).parts) == 1
        found = read_bytes(queue, log, 1, limit=1_000, max_bytes=1 << 20, gather=gather)
        ordinary = read_queue(queue, log, 1, limit=1_000, max_bytes=1 << 20)
        assert b"".join(found.parts) == b"".join(part for _, _, part in ordinary.records)
        assert (found.records, len(found.parts)) == (39, 2)


def test_no_queue_and_an_empty_one(tmp_path: Path, place: Place, gather: Gather | None) -> None:
    empty = Place(place.log, ConsumeQueue(tmp_path / "other", "orders", 1, file_size=QUEUE_ENTRY_SIZE * 10))
    assert given(empty, 0, limit=3, max_bytes=9, accept=None, gather=gather) == expected(
        empty, 0, limit=3, max_bytes=9, accept=None
    )
    assert read_bytes(None, place.log, 3, limit=1, max_bytes=1, gather=gather) == FoundBytes(
        read_queue(None, place.log, 3, limit=1, max_bytes=1).status, 0, 0, 0, 0, 0, []
    )
