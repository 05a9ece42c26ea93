"""Queues in a RocksDB: the same answers as those in files give, at any time, also after a crash."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from embermq import Message, Store
from embermq.errors import SettingsError
from embermq.store.database_queues import DatabaseQueue
from embermq.store.opening import Begin
from tests.builders import ManualClock, a_store

pytest.importorskip("rocksdict")

QUEUES = 3
LIGHT = ("%LMQ%a", "%LMQ%b")


def rocks(path: Path, **settings: Any) -> Store:
    return a_store(path, queue_store="rocksdb", light_queues=True, **settings)


def files(path: Path, **settings: Any) -> Store:
    return a_store(path, light_queues=True, **settings)


def fill(store: Store, begin: int, end: int) -> None:
    store.put_many(
        Message(
            "orders", b"%d" % number, tags=f"t{number % 3}", queue=number % QUEUES,
            properties={"INNER_MULTI_DISPATCH": LIGHT[number % 2]} if number % 4 else {},
        )
        for number in range(begin, end)
    )  # fmt: skip


def content(store: Store) -> dict[str, Any]:
    """All that readers can find out about the queues."""
    places = [("orders", queue) for queue in range(QUEUES)] + [(name, 0) for name in LIGHT]
    found: dict[str, Any] = {}
    for topic, queue in places:
        begin, end = store.offsets(topic, queue=queue)
        batch = store.get(topic, queue=queue, offset=begin, limit=1000)
        tagged = store.get(topic, queue=queue, offset=begin, limit=1000, tags="t1")
        found[f"{topic}/{queue}"] = (
            begin, end, [(message.offset, message.body) for message in batch], [message.body for message in tagged],
            store.queues(topic), store.get(topic, queue=queue, offset=end).status,
        )  # fmt: skip
    return found


def test_both_forms_give_the_same_answers(tmp_path: Path) -> None:
    with rocks(tmp_path / "r") as ours, files(tmp_path / "f") as theirs:
        for store in (ours, theirs):
            fill(store, 0, 100)
        assert content(ours) == content(theirs)
        assert ours.get("nothing", queue=0, offset=0).status == theirs.get("nothing", queue=0, offset=0).status
    with rocks(tmp_path / "r") as ours, files(tmp_path / "f") as theirs:
        for store in (ours, theirs):
            fill(store, 100, 150)
        assert content(ours) == content(theirs)


def test_times_are_found_as_in_files(tmp_path: Path) -> None:
    times: list[int] = []
    found: list[list[int]] = []
    for open_form in (rocks, files):
        clock = ManualClock()
        times = [clock.time_ms + step for step in range(0, 60, 5)]
        with open_form(tmp_path / open_form.__name__, clock=clock) as store:
            for number in range(20):
                store.put(Message("orders", b"%d" % number, queue=0))
                clock.advance(ms=number % 3)
            moments = [datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time) for time in times]
            found.append(
                [
                    store.find_offset("orders", queue=0, time=moment, upper=upper)
                    for moment in moments
                    for upper in (False, True)
                ]
            )
    assert found[0] == found[1]


def test_a_clean_stop_leaves_nothing_to_be_read_again(tmp_path: Path) -> None:
    with rocks(tmp_path / "s") as store:
        fill(store, 0, 50)
    with rocks(tmp_path / "s") as store:
        recovered = store.state().recovered
        assert recovered.reason is Begin.QUEUE_DATABASE
        assert recovered.begin == store.state().log_written


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_what_a_crash_left_out_is_put_again(tmp_path: Path, has_checkpoint: bool) -> None:
    with rocks(tmp_path / "s") as store:
        fill(store, 0, 60)
        if has_checkpoint:
            store.checkpoint()
        fill(store, 60, 100)
        wanted = content(store)
        shutil.copytree(tmp_path / "s", tmp_path / "copy")
    with rocks(tmp_path / "copy") as store:
        assert not store.state().recovered.clean
        assert content(store) == wanted
        fill(store, 100, 110)
        assert store.offsets("orders", queue=100 % QUEUES)[1] == wanted[f"orders/{100 % QUEUES}"][1] + 4


def test_a_log_that_lost_its_end_takes_the_queues_with_it(tmp_path: Path) -> None:
    with rocks(tmp_path / "s") as store:
        fill(store, 0, 40)
        wanted, end = content(store), store.state().log_written
    with rocks(tmp_path / "s") as store:
        fill(store, 40, 80)
    (log,) = (tmp_path / "s" / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(end)
        file.write(bytes(log.stat().st_size - end))
    (tmp_path / "s" / "abort").touch()
    with rocks(tmp_path / "s") as store:
        assert content(store) == wanted


def test_one_form_becomes_the_other(tmp_path: Path) -> None:
    with files(tmp_path / "s") as store:
        fill(store, 0, 60)
        wanted = content(store)
    with rocks(tmp_path / "s") as store:
        assert content(store) == wanted
        fill(store, 60, 80)
        wanted = content(store)
    with files(tmp_path / "s") as store:
        assert content(store) == wanted
        fill(store, 80, 90)
        wanted = content(store)
    with rocks(tmp_path / "s") as store:
        assert content(store) == wanted


def test_a_deleted_topic_begins_anew(tmp_path: Path) -> None:
    with rocks(tmp_path / "s") as store:
        fill(store, 0, 30)
        store.delete_topic("orders")
        assert store.offsets("orders", queue=0) == (0, 0)
        assert store.queues("orders") == []
        fill(store, 0, 3)
        assert store.offsets("orders", queue=0) == (0, 1)
        assert store.state().queues == 5


def test_entries_of_expired_records_go(tmp_path: Path) -> None:
    clock = ManualClock()
    with rocks(tmp_path / "s", clock=clock, retention_hours=1) as store:
        fill(store, 0, 1500)
        clock.advance(ms=2 * 3_600_000)
        fill(store, 1500, 1600)
        assert store.clean() > 0
        begin, end = store.offsets("orders", queue=0)
        assert 0 < begin < end == 534
        assert store.get("orders", queue=0, offset=begin)[0].offset == begin
        store.clean_queues()
        queue = store.find_queue("orders", 0)
        assert isinstance(queue, DatabaseQueue)
        assert [offset for offset, _ in queue.units(0, end)] == list(range(begin, end))
        assert store.offsets("orders", queue=0) == (begin, end)
    with rocks(tmp_path / "s", clock=clock) as store:
        assert store.offsets("orders", queue=0) == (begin, end)


def test_extended_entries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="never extended"):
        rocks(tmp_path / "s", extended_queues=True)


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="files or rocksdb"):
        a_store(tmp_path / "s", queue_store="paper")
