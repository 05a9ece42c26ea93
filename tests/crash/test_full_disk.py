"""A disk without space: puts are refused in plain words, reads go on, and puts come back by themselves."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embermq import Message, Store, open_store
from embermq.errors import DiskFull
from tests.builders import a_store, read_all, wait_until
from tests.crash.faults import Faults, fail
from tests.crash.load import Report, put_by_plan, run_load
from tests.crash.model import check_reopened
from tests.crash.plan import SETTINGS

SEED = 61
STEPS = 40


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", path], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted: {done.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", "-l", path], check=False)


def fill(path: Path) -> None:
    """Leave no byte free."""
    with path.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4_096))
        except OSError as error:
            assert error.errno == errno.ENOSPC


def put_until_refused(store: Store) -> tuple[list[bytes], DiskFull]:
    bodies: list[bytes] = []
    with pytest.raises(DiskFull) as caught:
        while True:
            body = b"%d-" % len(bodies) + bytes(4_000)
            store.put(Message("orders", body, queue=0, keys=["k"]))
            bodies.append(body)
    return bodies, caught.value


def can_put(store: Store, body: bytes = b"x") -> bool:
    try:
        store.put(Message("orders", body, queue=0))
    except DiskFull:
        return False
    return True


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
@pytest.mark.parametrize("reserve", [0, 500_000])
def test_a_full_disk_refuses_puts_until_there_is_space_again(small_disk: Path, durability: str, reserve: int) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(1_000_000))
    settings: dict[str, Any] = {"durability": durability, "reserve_bytes": reserve, "commit_interval_ms": 5}
    store = a_store(small_disk / "store", **settings)
    bodies, refusal = put_until_refused(store)
    assert bodies
    assert str(small_disk / "store") in str(refusal) and "bytes free" in str(refusal) and "limit" in str(refusal)
    assert refusal.free < 500_000 + 2 * 65_536
    wait_until(lambda: store.state().dispatch_behind == 0)
    assert read_all(store)["orders", 0] == bodies
    assert not can_put(store, bytes(60_000))
    filler.unlink()
    began = time.monotonic()
    wait_until(lambda: can_put(store), seconds=5)
    assert time.monotonic() - began < 1.5, "a second, and what a busy machine adds"
    store.close()
    with a_store(small_disk / "store", **settings) as again:
        assert read_all(again)["orders", 0][: len(bodies)] == bodies


def test_a_store_that_was_closed_on_a_full_disk_keeps_everything(small_disk: Path) -> None:
    store = a_store(small_disk / "store")
    bodies, _ = put_until_refused(store)
    fill(small_disk / "filler")
    store.close()
    (small_disk / "filler").unlink()
    with a_store(small_disk / "store") as again:
        assert read_all(again)["orders", 0] == bodies


def test_a_store_opens_on_a_full_disk_and_can_be_read(small_disk: Path) -> None:
    store = a_store(small_disk / "store")
    bodies, _ = put_until_refused(store)
    store.close()
    fill(small_disk / "filler")
    with a_store(small_disk / "store") as again:
        assert read_all(again)["orders", 0] == bodies
        assert not can_put(again)
        (small_disk / "filler").unlink()
        wait_until(lambda: can_put(again), seconds=5)


def test_messages_become_visible_again_when_retention_has_overtaken_the_dispatcher(memory_path: Path) -> None:
    # So many that the dispatcher must read them from the log, in files that go while it cannot write.
    many = [Message("orders", bytes(50), queue=0)] * 66_000
    with (
        Faults() as faults,
        a_store(memory_path / "store", max_bytes=65_536, delete_pause_ms=0, delete_batch=999) as store,
    ):
        faults.add(fail(errno.ENOSPC), call="create", path="consumequeue")
        store.put_many(many)
        store.clean()
        assert store.state().log_begin > store.state().dispatched
        faults.clear()
        wait_until(lambda: store.state().dispatch_behind == 0, seconds=1)


def without_space(path: Path, durability: str, most: int) -> None:
    """Every allocation fails from one on, until space is back."""
    settings = {**SETTINGS, "durability": durability}
    with Faults() as counting:
        run_load(path / "counted", settings, SEED, STEPS)
    count = counting.counts["posix_fallocate"]
    chosen = random.Random(f"{SEED}-{durability}").sample(range(1, count + 1), min(most, count))
    for since in chosen:
        print(f"seed={SEED} {durability}: no space from allocation {since} of {count} on")
        case, report = path / str(since), Report()
        with Faults() as faults:
            faults.add(fail(errno.ENOSPC), call="posix_fallocate", since=since)
            store = open_store(case, **settings)
            put_by_plan(store, SEED, STEPS, report)
            assert all(isinstance(error, DiskFull) for _, error in report.refused), report.refused
            assert not report.troubles, report.troubles
            faults.clear()
            began = time.monotonic()
            wait_until(lambda store=store: can_put_numbered(store), seconds=5)  # type: ignore[misc]
            assert time.monotonic() - began < 1.5
            wait_until(lambda store=store: store.state().dispatch_behind == 0)  # type: ignore[misc]
            put_by_plan(store, SEED, 5, report, begin=500_000)
            store.close()
        check_reopened(case, settings, SEED, report.acknowledged)
        shutil.rmtree(case)


def can_put_numbered(store: Store) -> bool:
    report = Report()
    put_by_plan(store, SEED, 1, report, begin=900_000 + store.state().log_written)
    return not report.refused


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_without_space_for_a_file_puts_are_refused_and_come_back(memory_path: Path, durability: str) -> None:
    without_space(memory_path, durability, most=4)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_without_space_for_any_file_puts_are_refused_and_come_back(memory_path: Path, durability: str) -> None:
    without_space(memory_path, durability, most=10**6)
