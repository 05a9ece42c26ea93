"""What cannot be read is told, with its place and the reason; it is skipped only when asked for, and counted."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from embermq import Message
from embermq.errors import (
    DamagedRecord,
    DataLoss,
    ForeignFile,
    MissingFile,
    StoreMissing,
    TopicNotFound,
    WrongFileSize,
)
from embermq.format.record import scan_record
from embermq.scan.log_plan import plan_stretch
from embermq.scan.planner import list_queues, plan
from embermq.scan.reading import read_split
from embermq.scan.split_context import MakeEngine
from embermq.scan.splits import QueueSplit, RecordSplit, StorePlace
from embermq.scan.survey import Survey
from embermq.scan.tally import Tally
from embermq.scan.wanted import OffsetRange, Wanted
from tests.builders import a_store
from tests.unit.scan.logs import ENGINES, NAME

WANTED = Wanted(columns=("queueOffset", "physicalOffset", "body"))
COUNT = 60
LOG = f"commitlog/{NAME}"


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> MakeEngine:
    return ENGINES[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with a_store(tmp_path, log_file_size=4_096) as store:
        store.put_many([Message("orders", b"%04d" % number * 25, queue=0) for number in range(COUNT)])
    return tmp_path


def places(path: Path) -> list[int]:
    """Where the records of the first file begin."""
    data, at, found = memoryview((path / LOG).read_bytes()), 0, []
    while (record := scan_record(data, at, at, check_body=True)) is not None:
        found.append(at)
        at += record.size
    return found


def write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def read(path: Path, wanted: Wanted, engine: MakeEngine, split_size: int | None = None) -> tuple[list[int], Tally]:
    tally = Tally()
    splits = plan(str(path), wanted, split_size=split_size, tally=tally)
    batches = [batch for split in splits for batch in read_split(split, wanted, tally, make_engine=engine)]
    return [offset for batch in batches for offset in batch.column("queueOffset").to_pylist()], tally


@pytest.mark.parametrize(
    ("at", "data", "reason"),
    [
        (0, b"\0\0\0\x10", "no topic in"),
        (0, b"\x7f\0\0\0", "bytes announced"),
        (4, b"\0\0\0\0", "unknown magic"),
        (28, b"\0\0\0\0\0\0\0\x01", "it says that it lies at 1"),
        (90, b"?", "does not match its checksum"),
        (84, b"\x7f\xff\xff\xff", "no topic in"),
    ],
)
@pytest.mark.parametrize("split_size", [None, 700, 97])
def test_a_damaged_record_is_told_by_file_and_position_or_skipped(
    path: Path, engine: MakeEngine, at: int, data: bytes, reason: str, split_size: int | None
) -> None:
    position = places(path)[7]
    write(path / LOG, position + at, data)
    if at == 0 and data[0] == 0:
        reason = "do not add up|no topic in"
    with pytest.raises(DamagedRecord, match=reason) as caught:
        read(path, WANTED, engine, split_size)
    assert caught.value.position == position
    assert str(path / LOG) in str(caught.value)
    offsets, tally = read(path, replace(WANTED, skip_damaged=True), engine, split_size)
    assert offsets == [number for number in range(COUNT) if number != 7]
    assert tally == Tally(damaged=1, lost=0)


@pytest.mark.parametrize("split_size", [10_000, 700])
def test_a_damaged_record_that_a_read_goes_on_with_is_told(path: Path, engine: MakeEngine, split_size: int) -> None:
    position = places(path)[7]
    write(path / LOG, position + 4, b"\0\0\0\0")
    with closing(Survey(StorePlace(str(path)))) as survey:
        splits = plan_stretch(survey, position, survey.end, split_size, is_exact=True)
    with pytest.raises(DamagedRecord, match="unknown magic") as caught:
        list(read_split(splits[0], WANTED, make_engine=engine))
    assert caught.value.position == position
    tally, wanted = Tally(), replace(WANTED, skip_damaged=True)
    batches = [batch for split in splits for batch in read_split(split, wanted, tally, make_engine=engine)]
    assert [offset for batch in batches for offset in batch.column("queueOffset").to_pylist()] == list(range(8, COUNT))
    assert tally == Tally(damaged=1)


def test_a_damaged_body_matters_to_those_who_ask_for_it(path: Path, engine: MakeEngine) -> None:
    write(path / LOG, places(path)[7] + 90, b"?")
    offsets, tally = read(path, replace(WANTED, columns=("queueOffset",)), engine)
    assert offsets == list(range(COUNT))
    assert tally == Tally()


@pytest.mark.parametrize("split_size", [None, 700])
def test_a_hole_in_the_log_is_told(path: Path, engine: MakeEngine, split_size: int | None) -> None:
    begin, end = places(path)[5], places(path)[9]
    write(path / LOG, begin, bytes(end - begin))
    with pytest.raises(DamagedRecord, match="no record where the log goes on") as caught:
        read(path, WANTED, engine, split_size)
    assert caught.value.position == begin
    offsets, tally = read(path, replace(WANTED, skip_damaged=True), engine, split_size)
    assert offsets == [number for number in range(COUNT) if not 5 <= number < 9]
    assert tally.damaged >= 1


@pytest.mark.parametrize("by_queue", [False, True], ids=["log", "queue"])
def test_a_file_that_went_away_is_a_loss(path: Path, engine: MakeEngine, by_queue: bool) -> None:
    """Retention may delete a file after a read was planned."""
    ranges, count = (OffsetRange("orders", 0, 2, None),), len(places(path))
    wanted = replace(WANTED, ranges=ranges) if by_queue else WANTED
    (split,) = plan(str(path), wanted)
    (path / LOG).unlink()
    what = (
        f"topic 'orders', queue 0: {count - 2} of the offsets [2, {COUNT})" if by_queue else "log positions [0, 4096)"
    )
    told = re.escape(f"{what} cannot be read: {path / LOG} was deleted after this read was planned")
    with pytest.raises(DataLoss, match=told):
        [*read_split(split, wanted, make_engine=engine)]
    tally = Tally()
    left = [*read_split(split, replace(wanted, fail_on_loss=False), tally, make_engine=engine)]
    assert [offset for batch in left for offset in batch.column("queueOffset").to_pylist()] == [*range(count, COUNT)]
    assert tally == Tally(lost=count - 2 if by_queue else 1)


def test_a_record_whose_file_went_away_is_a_loss(path: Path) -> None:
    files = tuple(file for file in plan(str(path), WANTED)[0].files)
    split = RecordSplit(StorePlace(str(path)), (0, files[1].start), files, files[-1].end)
    (path / LOG).unlink()
    with pytest.raises(DataLoss, match=r"log positions \[0, 1\) cannot be read: .* was deleted after this read"):
        [*read_split(split, WANTED)]
    tally = Tally()
    (left,) = read_split(split, replace(WANTED, fail_on_loss=False), tally)
    assert (left.num_rows, tally) == (1, Tally(lost=1))


def test_a_split_whose_file_became_shorter_fails_or_gives_what_is_left(path: Path, engine: MakeEngine) -> None:
    (split,) = plan(str(path), WANTED)
    count = len(places(path))
    (path / LOG).write_bytes((path / LOG).read_bytes()[: places(path)[3] + 5])
    with pytest.raises(DamagedRecord):
        [*read_split(split, WANTED, make_engine=engine)]
    tally = Tally()
    left = [*read_split(split, replace(WANTED, skip_damaged=True), tally, make_engine=engine)]
    offsets = [offset for batch in left for offset in batch.column("queueOffset").to_pylist()]
    assert offsets == [*range(3), *range(count, COUNT)]
    assert tally == Tally(damaged=1)


def test_a_queue_that_leads_to_another_message_is_told(path: Path, engine: MakeEngine) -> None:
    queue = path / f"consumequeue/orders/0/{NAME}"
    write(queue, 20 * 3, queue.read_bytes()[20 * 15 : 20 * 16])
    wanted = replace(WANTED, ranges=(OffsetRange("orders", 0, 0, 10),))
    with pytest.raises(DamagedRecord, match="but it belongs to another message"):
        read(path, wanted, engine)
    offsets, tally = read(path, replace(wanted, skip_damaged=True), engine)
    assert offsets == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert tally == Tally(damaged=1)


def test_offsets_that_are_not_there_are_a_loss(path: Path, engine: MakeEngine) -> None:
    wanted = replace(WANTED, ranges=(OffsetRange("orders", 0, 55, 65),))
    told = re.escape("topic 'orders', queue 0: offsets [55, 65) cannot be read: it has [0, 60)")
    with pytest.raises(DataLoss, match=told):
        read(path, wanted, engine)
    offsets, tally = read(path, replace(wanted, fail_on_loss=False), engine)
    assert offsets == [55, 56, 57, 58, 59]
    assert tally == Tally(lost=5)


def test_messages_that_are_lost_between_plan_and_read_are_a_loss(path: Path, engine: MakeEngine) -> None:
    wanted = replace(WANTED, ranges=(OffsetRange("orders", 0, 0, 10),))
    (split,) = plan(str(path), wanted)
    assert isinstance(split, QueueSplit)
    late = replace(split, files=split.files[1:])  # as if the first file had expired
    with pytest.raises(DataLoss, match="the log does not have the"):
        [*read_split(late, wanted, make_engine=engine)]
    tally = Tally()
    [*read_split(late, replace(wanted, fail_on_loss=False), tally, make_engine=engine)]
    assert tally.lost == 10


def test_a_queue_that_does_not_exist_is_named(path: Path, engine: MakeEngine) -> None:
    with pytest.raises(DataLoss, match=r"queue 9: .* there is no such queue"):
        read(path, replace(WANTED, ranges=(OffsetRange("orders", 9, 0, 1),)), engine)


def test_a_topic_that_does_not_exist_names_the_nearest(path: Path) -> None:
    with pytest.raises(TopicNotFound, match="the nearest name is 'orders'"):
        plan(str(path), replace(WANTED, topics=frozenset({"order"})))


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="no such directory"):
        plan(str(tmp_path / "nowhere"), WANTED)
    (tmp_path / "some.txt").touch()
    with pytest.raises(StoreMissing, match="no commitlog/ is in it"):
        plan(str(tmp_path), WANTED)


def test_log_files_that_are_not_as_they_should_be_are_told(path: Path) -> None:
    second = path / f"commitlog/{4096:020d}"
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(MissingFile, match="4096 is missing"):
        plan(str(path), WANTED)
    second.write_bytes(kept[:-1])
    with pytest.raises(WrongFileSize, match="4095 bytes found, 4096 expected"):
        plan(str(path), WANTED)
    second.write_bytes(kept)
    last = path / f"commitlog/{8192:020d}"
    last.rename(path / "aside")
    with pytest.raises(DataLoss, match=r"log positions \[8192, \d+\) cannot be read: queues know records there"):
        plan(str(path), WANTED)
    (path / "aside").rename(last)
    (path / "commitlog/notes").touch()
    with pytest.raises(ForeignFile, match="notes"):
        plan(str(path), WANTED)


def test_an_empty_store_has_nothing_to_read(tmp_path: Path) -> None:
    with a_store(tmp_path):
        pass
    assert plan(str(tmp_path), WANTED) == []
    assert list_queues(str(tmp_path)) == []
