"""Archives hold every message once, whoever reads them; and what cannot be is refused before anything is changed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from embermq import Message, open_store
from embermq.archive.errors import ArchiveBusy, ArchiveMismatch, ArchiveMissing
from embermq.archive.tables import open_table
from embermq.archive.target import Target
from embermq.errors import DamagedRecord, DataLoss, SettingsError, StoreLocked, StoreMissing, TopicNotFound
from embermq.files.lock import DirectoryLock
from embermq.files.space import DiskSpace
from embermq.jobs.errors import NoRoom, TargetExists
from tests.archive_checks import FORMATS, PARQUET, archive, left_files, rows_of_archive, rows_of_store
from tests.builders import SMALL_SIZES, ManualClock, some_messages
from tests.conftest import Golden

DAY_HOURS = 24
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # pyiceberg leaves SQLite to the collector


def fill(path: Path, seed: int = 1, *, days: int = 3) -> None:
    """A store with messages of several topics and days."""
    chance, clock = random.Random(seed), ManualClock()
    with open_store(path, clock=clock, **SMALL_SIZES) as store:
        for _ in range(days):
            for topic in ("orders", "%RETRY%billing", "orders-2"):
                store.put_many(some_messages(chance.randrange(1, 60), topic=topic, size=chance.randrange(1, 400)))
            body = chance.randbytes(chance.randrange(1, 9000))
            store.put(Message("orders", body, tags="eu", properties={"größe": "β", "leer": " "}))
            clock.advance(hours=DAY_HOURS)


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("format", FORMATS)
def test_others_read_every_message_once_with_all_its_fields(tmp_path: Path, format: str) -> None:
    fill(tmp_path / "store")
    done = archive(tmp_path / "store", tmp_path / "archive", format, batch_bytes=20_000, system_topics=True)
    expected = rows_of_store(tmp_path / "store", system_topics=True)
    assert rows_of_archive(tmp_path / "archive", format) == expected
    assert done.messages == len(expected)
    assert done.batches > 1
    assert left_files(tmp_path / "archive", format) == set()


@pytest.mark.parametrize("format", FORMATS)
def test_an_archive_goes_on_where_it_was(tmp_path: Path, format: str) -> None:
    for seed in range(3):
        fill(tmp_path / "store", seed)
        archive(tmp_path / "store", tmp_path / "archive", format)
        assert rows_of_archive(tmp_path / "archive", format) == rows_of_store(tmp_path / "store")
    assert archive(tmp_path / "store", tmp_path / "archive", format).messages == 0


@pytest.mark.parametrize("format", FORMATS)
def test_a_batch_that_another_job_was_faster_with_is_refused(tmp_path: Path, format: str) -> None:
    fill(tmp_path / "store")
    table = open_table(str(tmp_path / "archive"), format)
    archive(tmp_path / "store", tmp_path / "archive", format)
    state = table.find_state()
    assert state is not None
    with pytest.raises(ArchiveBusy, match="another job"):
        table.commit(replace(state, end=state.end + 1), [])
    assert table.find_state() == state


def test_an_iceberg_archive_that_was_copied_leaves_the_first_alone(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    archive(tmp_path / "store", tmp_path / "first", "iceberg")
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    fill(tmp_path / "store", 2)
    before = snapshot(tmp_path)
    with pytest.raises(ArchiveMismatch, match=r"made at .*/first, and an Iceberg table names its files"):
        archive(tmp_path / "store", tmp_path / "copy", "iceberg")
    assert snapshot(tmp_path) == before
    (tmp_path / "link").symlink_to(tmp_path / "first")  # the same folder by another name
    archive(tmp_path / "store", tmp_path / "link", "iceberg")
    assert rows_of_archive(tmp_path / "first", "iceberg") == rows_of_store(tmp_path / "store")
    (tmp_path / "first").rename(tmp_path / "moved")
    with pytest.raises(ArchiveMismatch, match="bring it back"):
        open_table(str(tmp_path / "moved")).find_state()


def test_rows_are_in_folders_by_topic_and_day(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    archive(tmp_path / "store", tmp_path / "archive", system_topics=True)
    folders = {str(path.parent.relative_to(tmp_path / "archive")) for path in tmp_path.glob("archive/**/*.parquet")}
    days = ("2023-11-14", "2023-11-15", "2023-11-16")
    topics = ("orders", "orders-2", "%25RETRY%25billing")
    assert folders == {f"topic={topic}/day={day}" for topic in topics for day in days}


@pytest.mark.parametrize("format", FORMATS)
def test_several_workers_write_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    monkeypatch.setattr("embermq.archive.job.SMALLEST_TASK", 5_000)
    fill(tmp_path / "store")
    archive(tmp_path / "store", tmp_path / "archive", format, workers=3, batch_bytes=20_000)
    assert rows_of_archive(tmp_path / "archive", format) == rows_of_store(tmp_path / "store")


def test_topics_can_be_chosen_and_stay_so(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    archive(tmp_path / "store", tmp_path / "archive", topics=("orders-2",))
    fill(tmp_path / "store", 2)
    archive(tmp_path / "store", tmp_path / "archive")
    expected = rows_of_store(tmp_path / "store", topics=frozenset({"orders-2"}))
    assert rows_of_archive(tmp_path / "archive", PARQUET) == expected
    with pytest.raises(ArchiveMismatch, match="holds topics orders-2, and topics orders were asked for"):
        archive(tmp_path / "store", tmp_path / "archive", topics=("orders",))


def test_rows_that_wait_for_too_long_become_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("GROUP_BYTES", 3_000), ("MOST_WAITING", 5_000), ("MOST_OPEN", 2)):
        monkeypatch.setattr(f"embermq.archive.writing.{name}", value)
    fill(tmp_path / "store")
    archive(tmp_path / "store", tmp_path / "archive", system_topics=True)
    assert rows_of_archive(tmp_path / "archive", PARQUET) == rows_of_store(tmp_path / "store", system_topics=True)


def test_golden_stores_are_archived_whole(tmp_path: Path, golden: Golden) -> None:
    for name in golden.names:
        store = golden.store(name)
        archive(store, tmp_path / name, system_topics=True)
        assert rows_of_archive(tmp_path / name, PARQUET) == rows_of_store(store, system_topics=True)


def refused(tmp_path: Path, error: type[Exception], act: Callable[[], object], *, match: str) -> None:
    """What is refused changes nothing."""
    before = snapshot(tmp_path)
    with pytest.raises(error, match=match):
        act()
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("format", FORMATS)
def test_bad_targets_are_refused_and_nothing_is_changed(tmp_path: Path, format: str) -> None:
    fill(tmp_path / "a")
    fill(tmp_path / "b", 2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    archive(tmp_path / "a", tmp_path / "archive", format)
    for name in ("full", "file"):
        refused(tmp_path, TargetExists, lambda name=name: archive(tmp_path / "a", tmp_path / name, format), match=name)
    refused(
        tmp_path,
        ArchiveMismatch,
        lambda: archive(tmp_path / "b", tmp_path / "archive", format),
        match="of broker 'a'.* --broker-name a;",
    )
    refused(
        tmp_path,
        ArchiveMismatch,
        lambda: archive(tmp_path / "b", tmp_path / "archive", format, broker="a"),
        match="another store",
    )
    other = next(each for each in FORMATS if each != format)
    refused(
        tmp_path,
        ArchiveMismatch,
        lambda: archive(tmp_path / "a", tmp_path / "archive", other),
        match=f"its format is {format}, and {other} was asked for",
    )
    refused(tmp_path, StoreMissing, lambda: archive(tmp_path / "no", tmp_path / "new", format), match="no store at")
    with DirectoryLock(tmp_path / "archive" / "_ember"):
        refused(tmp_path, StoreLocked, lambda: archive(tmp_path / "a", tmp_path / "archive", format), match="in use")


def test_without_room_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "store")
    full = DiskSpace(used=1_000, free=1_000, total=2_000)
    monkeypatch.setattr("embermq.archive.target.DiskSpace.usage", lambda path: full)
    refused(tmp_path, NoRoom, lambda: archive(tmp_path / "store", tmp_path / "new"), match="1000 are free")


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(SettingsError, match=r"needs deltalake .*pip install 'embermq\[archive\]'"):
        open_table(str(tmp_path / "new"), "delta")
    with pytest.raises(SettingsError, match="format 'orc'"):
        open_table(str(tmp_path / "new"), "orc")
    with pytest.raises(ArchiveMissing, match="no archive at"):
        open_table(str(tmp_path / "new"))
    with pytest.raises(SettingsError, match="knows no such file system"):
        Target("ftp://somewhere/else").list("")


@pytest.mark.parametrize("options", [{"pattern": "("}, {"pattern": "a", "topics": ("a",)}])
def test_options_that_cannot_be_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match="pattern"):
        archive(tmp_path, tmp_path / "new", **options)  # type: ignore[arg-type]


def test_what_was_deleted_before_it_was_archived_is_told(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    archive(tmp_path / "store", tmp_path / "archive")
    fill(tmp_path / "store", 2, days=9)
    for file in sorted((tmp_path / "store" / "commitlog").iterdir())[:-1]:
        file.unlink()
    with pytest.raises(DataLoss, match=r"--allow-loss.*wait_for_archive"):
        archive(tmp_path / "store", tmp_path / "archive")
    archive(tmp_path / "store", tmp_path / "archive", allow_loss=True)
    kept = {row["physicalOffset"] for row in rows_of_store(tmp_path / "store")}
    assert kept <= {row["physicalOffset"] for row in rows_of_archive(tmp_path / "archive", PARQUET)}


def test_a_damaged_record_stops_the_batch_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    log_file = next((tmp_path / "store" / "commitlog").iterdir())
    place = next(row for row in rows_of_store(tmp_path / "store") if row["queueOffset"] == 3)
    data = bytearray(log_file.read_bytes())
    data[int(place["physicalOffset"]) + 100] ^= 1  # type: ignore[call-overload]
    log_file.write_bytes(data)
    with pytest.raises(DamagedRecord):
        archive(tmp_path / "store", tmp_path / "archive")
    assert list((tmp_path / "archive").rglob("*.parquet")) == []
    done = archive(tmp_path / "store", tmp_path / "archive", allow_loss=True)
    assert done.damaged == 1
    assert rows_of_archive(tmp_path / "archive", PARQUET) == rows_of_store(tmp_path / "store", skip_damaged=True)


def test_a_topic_that_is_not_there_yet_may_come(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    assert archive(tmp_path / "store", tmp_path / "archive", topics=("later",)).messages == 0
    with open_store(tmp_path / "store") as store:
        store.put_many(some_messages(5, topic="later"))
    assert archive(tmp_path / "store", tmp_path / "archive").messages == 5
    with pytest.raises(TopicNotFound):
        rows_of_store(tmp_path / "store", topics=frozenset({"never"}))
