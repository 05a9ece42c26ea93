"""Two stores, message by message: what differs, by queue and offset."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from embermq import Message
from embermq.cli.main import main
from embermq.jobs.compare import Comparison, Kind, compare
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.kernels import loading
from tests.builders import ManualClock, a_store, some_messages
from tests.unit.store.planting import overwrite_log, records_of


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(300))
        store.put_many([Message("clicks", b"%d" % number, queue=1) for number in range(50)])
    return path


def compared(left: Path, right: Path, *, range_size: int = 9_000) -> Comparison:
    return compare(left, right, runner=LocalRunner(2), progress=Progress("compare"), range_size=range_size)


def test_kernels_find_the_same(stopped: Path, tmp_path: Path) -> None:
    if not loading.is_installed():
        pytest.skip("needs numba")
    loading.load()
    shutil.copytree(stopped, tmp_path / "copy")
    record = records_of(stopped)[17]
    overwrite_log(tmp_path / "copy", record.position + 88, b"#")
    found = compared(stopped, tmp_path / "copy")
    assert [(each.topic, each.begin, each.detail) for each in found.differences] == [("orders", record.offset, "body")]
    assert found.same == 349


def test_a_copy_is_the_same(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "copy")
    assert compared(stopped, tmp_path / "copy") == Comparison(350, 0, 0, 0, [])


def test_messages_that_moved_in_the_log_are_the_same(tmp_path: Path) -> None:
    """Another broker stored the same messages later, in another order of queues."""
    messages = [Message("orders", b"%d" % number, queue=number % 2, keys=["k"]) for number in range(100)]
    paths = tmp_path / "left", tmp_path / "right"
    for path, order in zip(paths, (messages, sorted(messages, key=lambda message: message.queue or 0)), strict=True):
        with a_store(path, clock=ManualClock(1_700_000_000_000)) as store:
            store.put_many(order)
    found = compared(*paths)
    assert found.same + found.different == 100
    assert {each.detail for each in found.differences} <= {"properties"}  # each put has a unique key of its own


def test_a_changed_body_is_named_with_its_offset(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "copy")
    record = records_of(stopped)[123]
    overwrite_log(tmp_path / "copy", record.position + 88, b"#")
    (difference,) = compared(stopped, tmp_path / "copy").differences
    place = (difference.topic, difference.queue, difference.begin, difference.end)
    assert place == (record.topic, record.queue, record.offset, record.offset + 1)
    assert (difference.kind, difference.detail) == (Kind.DIFFERENT, "body")


def test_what_only_one_has_is_told_by_range(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "copy")
    with a_store(tmp_path / "copy") as store:
        store.put_many([Message("clicks", b"more", queue=1)] * 7)
        store.put(Message("new", b"x", queue=0))
    found = compared(stopped, tmp_path / "copy")
    assert (found.same, found.only_left, found.only_right) == (350, 0, 8)
    places = [(each.topic, each.queue, each.begin, each.end, each.kind) for each in found.differences]
    assert places == [("clicks", 1, 50, 57, Kind.RIGHT), ("new", 0, 0, 1, Kind.RIGHT)]
    back = compared(tmp_path / "copy", stopped)
    assert {each.kind for each in back.differences} == {Kind.LEFT}


def test_the_command_prints_a_table_or_json_and_ends_with_1(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(stopped, tmp_path / "copy")
    assert main(["store", "compare", str(stopped), str(tmp_path / "copy")]) == 0
    assert capsys.readouterr().out == "the same: 350 messages\n"
    overwrite_log(tmp_path / "copy", records_of(stopped)[7].position + 88, b"#")
    assert main(["store", "compare", str(stopped), str(tmp_path / "copy"), "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["same"], facts["messages"], facts["different"]) == (False, 349, 1)
    assert main(["store", "compare", str(stopped), str(tmp_path / "none")]) == 3
