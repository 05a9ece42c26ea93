"""What is archived can be sent again: as it was, what one wants of it, where one wants it, as fast as one wants."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from embermq import Message, open_store
from embermq.archive.directory_sink import open_directory_sink
from embermq.archive.errors import ArchiveMismatch, ArchiveMissing, TopicAbsent
from embermq.archive.history import estimate_size, find_topics, read_history
from embermq.archive.replay import ReplayOptions, StoredRow, replay
from embermq.archive.tables import Table, open_table
from embermq.errors import DataLoss, IllegalTopic, SettingsError
from embermq.files.space import DiskSpace
from embermq.jobs.errors import NoRoom, TargetExists
from embermq.jobs.progress import Progress
from embermq.scan.splits import StorePlace
from embermq.scan.wanted import Wanted
from tests.archive_checks import FORMATS, PARQUET, archive, rows_of_archive, rows_of_store
from tests.builders import SMALL_SIZES, ManualClock, some_messages
from tests.conftest import Golden
from tests.unit.jobs.showing import Shown

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # pyiceberg leaves SQLite to the collector

# What a message has whatever store it is in. Bodies that were packed may be packed differently.
OWN = ("topic", "queueId", "body", "tags", "keys", "flag", "bornTimestamp", "bornHost", "reconsumeTimes", "uniqKey")
PACKING = {"INNER_NUM", "INNER_BASE", "__CRC32#"}
EVERYTHING = Wanted()


class Taken:
    """A sink that only remembers."""

    def __init__(self) -> None:
        self.batches: list[list[StoredRow]] = []

    def find_position(self) -> int | None:
        return None

    def write(self, messages: list[StoredRow], position: int) -> None:
        assert position == messages[-1].position
        self.batches.append(messages)

    @property
    def messages(self) -> Iterator[StoredRow]:
        return (message for batch in self.batches for message in batch)


def own_facts(rows: list[dict[str, Any]]) -> dict[tuple[str, int], list[object]]:
    """What belongs to messages, by queue, in the order of the queue."""
    found: dict[tuple[str, int], list[object]] = {}
    for row in sorted(rows, key=lambda row: row["queueOffset"]):
        properties = {name: value for name, value in row["properties"] if name not in PACKING}
        facts = {name: row[name] for name in OWN} | {"properties": properties}
        found.setdefault((row["topic"], row["queueId"]), []).append(facts)
    return found


def fill(path: Path, seed: int, *, hours: float = 5) -> None:
    chance, clock = random.Random(seed), ManualClock(1_700_000_000_000 + seed * 1_000_000)
    with open_store(path, clock=clock, **SMALL_SIZES) as store:
        for _ in range(12):
            topic = chance.choice(["orders", "payments", "audit-log"])
            store.put_many(some_messages(chance.randrange(1, 30), topic=topic, size=chance.randrange(10, 300)))
            clock.advance(hours=hours)


def send(source: Table | None, place: StorePlace | None, wanted: Wanted = EVERYTHING, **options: Any) -> Taken:
    sink = Taken()
    replay(read_history(source, place, wanted), sink, ReplayOptions(**options))
    return sink


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", range(2))
def test_archive_replay_archive_gives_the_same_rows(tmp_path: Path, format: str, seed: int) -> None:
    fill(tmp_path / "store", seed)
    archive(tmp_path / "store", tmp_path / "first", format, batch_bytes=15_000)
    with open_directory_sink(tmp_path / "again", **SMALL_SIZES) as sink:
        done = replay(read_history(open_table(str(tmp_path / "first")), None, EVERYTHING), sink, ReplayOptions())
    archive(tmp_path / "again", tmp_path / "second", format)
    first, second = rows_of_archive(tmp_path / "first", format), rows_of_archive(tmp_path / "second", format)
    assert done.messages == len(first)
    assert own_facts(second) == own_facts(first)


def test_the_same_with_stores_of_rocketmq(tmp_path: Path, golden: Golden) -> None:
    for name in golden.names:
        store = golden.store(name)
        archive(store, tmp_path / name / "first")
        with open_directory_sink(tmp_path / name / "again", log_file_size=8 << 20) as sink:
            replay(read_history(open_table(str(tmp_path / name / "first")), None, EVERYTHING), sink, ReplayOptions())
        archive(tmp_path / name / "again", tmp_path / name / "second")
        first = [row for row in rows_of_store(store) if row["sysFlag"] & 0xC in (0, 8)]  # type: ignore[operator]
        second = rows_of_store(tmp_path / name / "again")
        assert own_facts(second) == own_facts(first), name


def test_messages_come_in_the_order_of_the_log(tmp_path: Path) -> None:
    fill(tmp_path / "store", 1)
    archive(tmp_path / "store", tmp_path / "archive", batch_bytes=9_000)
    positions = [message.position for message in send(open_table(str(tmp_path / "archive")), None).messages]
    assert positions == sorted(positions)
    assert positions == [row["physicalOffset"] for row in rows_of_store(tmp_path / "store")]


@pytest.mark.parametrize("format", FORMATS)
def test_archive_and_log_are_one_without_overlap_or_gap(tmp_path: Path, format: str) -> None:
    fill(tmp_path / "store", 1)
    archive(tmp_path / "store", tmp_path / "archive", format)
    fill(tmp_path / "store", 2)
    place = StorePlace(str(tmp_path / "store"))
    found = [message.position for message in send(open_table(str(tmp_path / "archive")), place).messages]
    assert found == [row["physicalOffset"] for row in rows_of_store(tmp_path / "store")]


def test_what_is_in_neither_is_told(tmp_path: Path) -> None:
    fill(tmp_path / "store", 1)
    archive(tmp_path / "store", tmp_path / "archive")
    for seed in range(2, 9):
        fill(tmp_path / "store", seed)
    for file in sorted((tmp_path / "store" / "commitlog").iterdir())[:-1]:
        file.unlink()
    with pytest.raises(DataLoss, match="log positions"):
        send(open_table(str(tmp_path / "archive")), StorePlace(str(tmp_path / "store")))
    fill(tmp_path / "other", 3)
    with pytest.raises(ArchiveMismatch, match="another store"):
        send(open_table(str(tmp_path / "archive")), StorePlace(str(tmp_path / "other")))
    with pytest.raises(ArchiveMissing):
        send(open_table(str(tmp_path / "nothing"), PARQUET), None)


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(topics=frozenset({"orders"})),
        Wanted(pattern="pay.*|audit.*"),
        Wanted(filter_text="tag1 || tag2"),
        Wanted(filter_text="number > 5 AND TAGS = 'tag0'"),
        Wanted(keys=frozenset({"key-3", "key-7"})),
        Wanted(begin_time_ms=1_700_000_000_000 + 40 * 3_600_000),
        Wanted(begin_time_ms=1_700_010_000_000, end_time_ms=1_700_000_000_000 + 40 * 3_600_000, filter_text="tag1"),
    ],
)
def test_archives_and_logs_are_filtered_alike(tmp_path: Path, wanted: Wanted) -> None:
    fill(tmp_path / "store", 1)
    archive(tmp_path / "store", tmp_path / "archive", batch_bytes=9_000)
    from_log = list(send(None, StorePlace(str(tmp_path / "store")), wanted).messages)
    assert list(send(open_table(str(tmp_path / "archive")), None, wanted).messages) == from_log
    assert 0 < len(from_log) < len(rows_of_store(tmp_path / "store"))


def test_topics_are_mapped_and_times_kept_or_new(tmp_path: Path) -> None:
    fill(tmp_path / "store", 1)
    place = StorePlace(str(tmp_path / "store"))
    kept = list(send(None, place, topics={"orders": "orders-2"}, to="rest").messages)
    assert {message.topic for message in kept} == {"orders-2", "rest"}
    assert max(message.born_ms for message in kept) < 1_701_000_000_000
    new = list(send(None, place, keep_times=False).messages)
    assert min(message.born_ms for message in new) > 1_750_000_000_000
    assert {message.topic for message in new} == {"orders", "payments", "audit-log"}
    with pytest.raises(IllegalTopic):
        ReplayOptions(to="no topic")
    with pytest.raises(SettingsError, match="rate is 0"):
        ReplayOptions(rate=0)


def test_a_rate_is_kept(tmp_path: Path) -> None:
    fill(tmp_path / "store", 1)
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    sink = Taken()
    history = read_history(None, StorePlace(str(tmp_path / "store")), EVERYTHING)
    done = replay(history, sink, ReplayOptions(rate=20), wait=wait, now=lambda: now)
    assert now == pytest.approx(done.messages / 20)
    assert max(map(len, sink.batches)) == 20


def test_messages_of_one_record_stay_together(tmp_path: Path, golden: Golden) -> None:
    place = StorePlace(str(golden.store("batch-cq")))
    batches = send(None, place, batch_messages=1).batches
    assert any(len(batch) > 1 for batch in batches)
    ends = [batch[-1].position for batch in batches]
    assert ends == sorted(set(ends))


def test_targets_and_topics_that_cannot_be_are_refused(tmp_path: Path) -> None:
    fill(tmp_path / "store", 1)
    with pytest.raises(TargetExists), open_directory_sink(tmp_path / "store"):
        pass
    with pytest.raises(TopicAbsent, match="nearest name is 'orders'"):
        find_topics(None, StorePlace(str(tmp_path / "store")), Wanted(topics=frozenset({"ordrs"})))


def test_a_disk_without_room_for_the_new_store_is_told_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "store", 1)
    archive(tmp_path / "store", tmp_path / "archive")
    sizes = [
        estimate_size(table, place, EVERYTHING)
        for table in (None, open_table(str(tmp_path / "archive")))
        for place in (None, StorePlace(str(tmp_path / "store")))
    ]
    used = sum(row["storeSize"] for row in rows_of_store(tmp_path / "store"))
    assert sizes[0] == 0 and sizes[1] >= used and 0 < sizes[2] <= sizes[1] and sizes[3] == sizes[2]
    nearly_full = DiskSpace(used=1, free=(64 << 20) + sizes[1] - 1, total=1 << 30)
    monkeypatch.setattr("embermq.jobs.targets.DiskSpace.usage", lambda path: nearly_full)
    with pytest.raises(NoRoom), open_directory_sink(tmp_path / "new", needs=sizes[1], **SMALL_SIZES):
        pass
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("source", ["archive", "log", "both"])
def test_a_reader_tells_all_bytes_that_it_has_read(tmp_path: Path, source: str) -> None:
    fill(tmp_path / "store", 1)
    archive(tmp_path / "store", tmp_path / "archive")
    fill(tmp_path / "store", 2)
    table = open_table(str(tmp_path / "archive")) if source != "log" else None
    place = StorePlace(str(tmp_path / "store")) if source != "archive" else None
    shown = Shown()
    clock = iter(range(10_000))
    progress = Progress("replay", shown, now=lambda: float(next(clock)))
    count = sum(batch.num_rows for batch in read_history(table, place, EVERYTHING, progress=progress))
    assert count == len(list(send(table, place).messages))
    last = {state.step: state for state in shown.states}
    assert set(last) == {"archive": {"archive"}, "log": {"log"}, "both": {"archive", "log"}}[source]
    for state in last.values():
        assert 0.9 * state.total < state.done <= state.total  # parts of a file are rounded down


@pytest.mark.parametrize("source", ["archive", "log", "both"])
def test_a_replay_goes_on_behind_any_message(tmp_path: Path, source: str) -> None:
    fill(tmp_path / "store", 1)
    archive(tmp_path / "store", tmp_path / "archive")
    table = open_table(str(tmp_path / "archive")) if source != "log" else None
    if source == "both":
        fill(tmp_path / "store", 2)
    place = StorePlace(str(tmp_path / "store")) if source != "archive" else None
    positions = [message.position for message in send(table, place).messages]
    for after in random.Random(1).sample(positions, 5):
        sink = Taken()
        replay(read_history(table, place, EVERYTHING, after=after), sink, ReplayOptions())
        assert [message.position for message in sink.messages] == [each for each in positions if each > after]


def test_a_replay_does_not_pass_over_what_the_store_has_deleted(tmp_path: Path) -> None:
    for seed in range(4):
        fill(tmp_path / "store", seed)
    for file in sorted((tmp_path / "store" / "commitlog").iterdir())[:-1]:
        file.unlink()
    place = StorePlace(str(tmp_path / "store"))
    assert list(send(None, place).messages)
    with pytest.raises(DataLoss, match="has deleted them"):
        list(read_history(None, place, EVERYTHING, after=100))


def test_a_replay_that_fails_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), open_directory_sink(tmp_path / "new", **SMALL_SIZES) as sink:
        sink.write([StoredRow("orders", 5, 0, b"x", {}, 0, 0, False, 1, "127.0.0.1:1", 0)], 0)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_message_keeps_its_queue(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", default_queues=16, **SMALL_SIZES) as store:
        store.put(Message("orders", b"x"), queue=11)
    with open_directory_sink(tmp_path / "again", **SMALL_SIZES) as sink:
        replay(read_history(None, StorePlace(str(tmp_path / "store")), EVERYTHING), sink, ReplayOptions())
    with open_store(tmp_path / "again", **SMALL_SIZES) as store:
        assert [message.body for message in store.get("orders", queue=11, offset=0)] == [b"x"]
