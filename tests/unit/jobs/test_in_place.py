"""Rebuilt queues and index in the place of broken ones: the old are kept, and no crash makes a store unreadable."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from embermq.errors import StoreLocked
from embermq.jobs.in_place import rebuild_in_place
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.store.opening import Begin
from embermq.store.settings import StoreSettings
from tests.builders import a_store, read_all, some_messages
from tests.unit.jobs.rebuilding import SIZES, derived
from tests.unit.store.planting import verify


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(500))
        store.put_many(some_messages(100, topic="clicks"))
    return path


def replaced(path: Path) -> Path:
    _, aside = rebuild_in_place(
        path,
        runner=LocalRunner(1),
        progress=Progress("rebuild"),
        settings=StoreSettings(**SIZES),
        range_size=9_000,
    )
    return aside


def break_all(path: Path) -> None:
    """Queues with nonsense in them, one missing, and an index that is none."""
    for file in sorted((path / "consumequeue" / "orders").rglob("0*")):
        if file.is_file():
            file.write_bytes(os.urandom(file.stat().st_size))
    shutil.rmtree(path / "consumequeue" / "clicks" / "0")
    for file in (path / "index").iterdir():
        file.write_bytes(os.urandom(file.stat().st_size))


def test_a_broken_store_is_whole_again_and_the_old_files_are_kept(stopped: Path) -> None:
    sound = derived(stopped)
    with a_store(stopped) as store:
        content = read_all(store)
    break_all(stopped)
    broken = derived(stopped)
    aside = replaced(stopped)
    assert derived(stopped) == sound
    assert derived(aside) == broken
    assert verify(stopped).sound
    with a_store(stopped) as store:
        assert store.state().recovered.reason is Begin.CHECKPOINT
        assert store.state().recovered.scan.records == 0
        assert read_all(store) == content


def test_a_second_time_keeps_both(stopped: Path) -> None:
    first, second = replaced(stopped), replaced(stopped)
    assert first != second
    assert derived(first) == derived(second) == derived(stopped)


def test_a_store_that_crashed_stays_one_that_crashed(stopped: Path, tmp_path: Path) -> None:
    with a_store(stopped) as store:
        store.put_many(some_messages(50))
        shutil.copytree(stopped, tmp_path / "crashed")
        content = read_all(store)
    break_all(tmp_path / "crashed")
    replaced(tmp_path / "crashed")
    assert (tmp_path / "crashed" / "abort").exists()
    with a_store(tmp_path / "crashed") as store:
        assert read_all(store) == content


class Stopped(BaseException):
    """As if the process ended here."""


@pytest.mark.parametrize("step", range(8))
def test_whatever_step_it_ends_at_the_store_shows_everything(
    stopped: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    with a_store(stopped) as store:
        content = read_all(store)
    break_all(stopped)
    calls = 0
    rename = os.rename

    def stop_at_step(*places: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > step:
            raise Stopped
        rename(*places)

    monkeypatch.setattr(os, "rename", stop_at_step)
    with suppress(Stopped):
        replaced(stopped)
    monkeypatch.setattr(os, "rename", rename)
    if step == 0:  # nothing was replaced, and broken queues are broken
        replaced(stopped)
    with a_store(stopped) as store:
        assert read_all(store) == content


OWNER = "import sys, embermq; store = embermq.open_store(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def test_a_store_that_somebody_owns_is_refused_and_the_owner_named(stopped: Path) -> None:
    before = derived(stopped)
    command = [sys.executable, "-c", OWNER, str(stopped)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == b"open\n"
        with pytest.raises(StoreLocked, match=rf"in use by process {owner.pid} \(.*embermq"):
            replaced(stopped)
        owner.kill()
    assert derived(stopped) == before
    assert not (stopped / "replaced").exists()
