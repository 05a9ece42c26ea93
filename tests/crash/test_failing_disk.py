"""A disk that answers with errors: what failed is told, what was acknowledged stays, and no sync is tried twice."""

from __future__ import annotations

import contextlib
import errno
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embermq import Message, Store, open_store
from embermq.errors import EmberError, FileSealed, StoreUnwritable, SyncFailed
from tests.builders import a_store, read_all, wait_until
from tests.crash.faults import SYNC_CALLS, Faults, fail
from tests.crash.load import Report, put_by_plan, run_load
from tests.crash.model import check_reopened
from tests.crash.plan import SETTINGS
from tests.crash.victim import Acknowledged

SEED = 5
STEPS = 40
LOG = "commitlog"
CALLS = ["create", "fdatasync", "fsync", "pwrite", "ftruncate", "posix_fallocate", "replace", "link", "unlink", "mkdir"]
CASES = [(durability, call) for durability in SYNC_CALLS for call in CALLS] + [("sync", "pwritev")]


@pytest.fixture
def faults() -> Iterator[Faults]:
    with Faults() as installed:
        yield installed


def settings_of(durability: str) -> dict[str, Any]:
    return {**SETTINGS, "durability": durability, "sync_timeout_ms": 2_000}


def put_in_threads(store: Store, count: int) -> Report:
    """Several writers at once, so that several wait for the sync that fails."""
    reports = [Report() for _ in range(count)]
    threads = [
        threading.Thread(
            target=put_by_plan, args=(store, SEED, STEPS, report), kwargs={"begin": number * 1_000_000}, daemon=True
        )
        for number, report in enumerate(reports)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Report(
        [each for report in reports for each in report.acknowledged],
        [each for report in reports for each in report.refused],
    )


def check_copy(path: Path, durability: str, acknowledged: list[Acknowledged], *, may_lose: bool = False) -> None:
    """What a process that was killed now would leave."""
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    check_reopened(copy, settings_of(durability), SEED, acknowledged, may_lose=may_lose)
    shutil.rmtree(copy)


@pytest.mark.parametrize("since", [4, 9, 30])
def test_a_failed_sync_fails_every_put_that_waits_and_all_that_follow(
    faults: Faults, tmp_path: Path, since: int
) -> None:
    store = open_store(tmp_path / "store", **settings_of("sync"))
    faults.add(fail(errno.EIO), call="pwritev", since=since, path=LOG)
    report = put_in_threads(store, 4)
    faults.clear()
    errors = [error for _, error in report.refused if not isinstance(error, FileSealed)]
    assert errors
    for error in errors:
        assert isinstance(error, SyncFailed) and error.cause.errno == errno.EIO
        assert LOG in str(error) and "Input/output error" in str(error)
    assert not store.state().writable and "sync failed" in (store.state().refusal or "")
    with pytest.raises(SyncFailed):
        store.put(Message("orders", b"later"))
    check_copy(tmp_path / "store", "sync", report.acknowledged)
    with pytest.raises(SyncFailed):
        store.close()
    check_reopened(tmp_path / "store", settings_of("sync"), SEED, report.acknowledged)


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_a_file_whose_sync_failed_is_never_synced_again(faults: Faults, tmp_path: Path, durability: str) -> None:
    store = open_store(tmp_path / "store", **settings_of(durability))
    store.put(Message("orders", b"x"))
    store.checkpoint()
    failing = tmp_path / "store" / LOG / f"{0:020d}"
    report = Report()
    faults.add(fail(errno.EIO), call=SYNC_CALLS[durability], path=str(failing))
    faults.calls.clear()
    put_by_plan(store, SEED, STEPS, report)
    wait_until(lambda: not store.state().writable)
    with pytest.raises(SyncFailed):
        store.close()
    assert faults.calls.count((SYNC_CALLS[durability], str(failing))) == 1


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_reads_go_on_after_a_failed_sync(faults: Faults, tmp_path: Path, durability: str) -> None:
    store = a_store(tmp_path / "store", durability=durability, flush_interval_ms=10, commit_interval_ms=5)
    put = [store.put(Message("orders", b"%d" % number, queue=0, keys=["k"])) for number in range(5)]
    wait_until(lambda: store.state().dispatch_behind == 0)
    faults.add(fail(errno.EIO), call=SYNC_CALLS[durability], path=LOG)
    with pytest.raises(StoreUnwritable):
        while True:
            store.put(Message("orders", bytes(20_000), queue=1))
    assert read_all(store)["orders", 0] == [b"%d" % number for number in range(5)]
    assert [message.position for message in store.query("orders", "k")] == [receipt.position for receipt in put]
    with pytest.raises(SyncFailed):
        store.close()


def test_a_write_buffer_that_cannot_be_written_ends_all_puts(faults: Faults, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", **settings_of("pooled"))
    faults.add(fail(errno.EIO), call="pwrite", path=LOG)
    store.put(Message("orders", b"x"))
    wait_until(lambda: not store.state().writable)
    with pytest.raises(SyncFailed, match="Input/output error"):
        store.put(Message("orders", b"y"))
    with pytest.raises(SyncFailed):
        store.close()


@pytest.mark.parametrize("part", ["consumequeue", "index"])
def test_a_queue_or_index_that_cannot_be_synced_ends_all_puts_but_no_message_is_lost(
    faults: Faults, tmp_path: Path, part: str
) -> None:
    store = open_store(tmp_path / "store", **settings_of("async"))
    report = Report()
    put_by_plan(store, SEED, STEPS, report)
    faults.add(fail(errno.EIO), call="fdatasync", path=part)
    store.put(Message("orders", b"x", keys=["k"], properties={"number": "999999999"}))
    with pytest.raises(SyncFailed, match=part):
        store.checkpoint()
    with pytest.raises(SyncFailed, match=part):
        store.put(Message("orders", b"y"))
    with pytest.raises(EmberError):
        store.close()
    faults.clear()
    with open_store(tmp_path / "store", **settings_of("async")) as again:
        assert again.state().writable
        assert b"x" in [body for bodies in read_all(again).values() for body in bodies]


def fail_at_calls(path: Path, durability: str, call: str, number: int, most: int) -> None:
    """The load, with one call failing once, and with all from one on failing."""
    with Faults() as counting:
        report = run_load(path, settings_of(durability), SEED, STEPS)
    assert not report.refused and not report.troubles
    count = counting.counts[call]
    chosen = random.Random(f"{SEED}-{durability}-{call}-{number}").sample(range(1, count + 1), min(most, count))
    for at in chosen:
        for which in ({"at": at}, {"since": at}):
            print(f"seed={SEED} {durability}: {call} fails with {errno.errorcode[number]} {which} of {count}")
            case = path.with_name(f"{next(iter(which))}-{at}")
            with Faults() as faults:
                faults.add(fail(number), call=call, **which)
                report = run_load(case, settings_of(durability), SEED, STEPS)
            if case.exists():
                check_copy(case, durability, report.acknowledged, may_lose=durability == "pooled")
                shutil.rmtree(case)


@pytest.mark.parametrize(("durability", "call"), CASES)
def test_an_error_at_a_call_loses_nothing(memory_path: Path, durability: str, call: str) -> None:
    fail_at_calls(memory_path / "counted", durability, call, errno.EIO, most=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(("durability", "call"), CASES)
def test_no_error_at_any_call_loses_anything(memory_path: Path, durability: str, call: str, number: int) -> None:
    fail_at_calls(memory_path / "counted", durability, call, number, most=10**6)


def test_queues_are_on_disk_before_the_log_files_they_came_from_go(faults: Faults, tmp_path: Path) -> None:
    store = a_store(tmp_path / "store", max_bytes=2 * 65_536, delete_pause_ms=0)
    store.put(Message("orders", b"the only one of its queue", queue=3))
    store.put_many([Message("orders", bytes(2_000), queue=0)] * 150)
    faults.calls.clear()
    assert store.clean() > 0
    calls = [(kind, path.removeprefix(str(tmp_path / "store"))) for kind, path in faults.calls]
    first_gone = calls.index(("unlink", f"/{LOG}/{0:020d}"))
    for needed in (f"/consumequeue/orders/3/{0:020d}", "/checkpoint"):
        assert ("fdatasync", needed) in calls[:first_gone]
    store.close()


def test_an_opening_that_fails_lets_the_directory_go(faults: Faults, tmp_path: Path) -> None:
    a_store(tmp_path / "store").close()
    faults.add(fail(errno.ENOSPC), call="pwrite", path="store/checkpoint")
    with pytest.raises((EmberError, OSError)):
        a_store(tmp_path / "store")
    faults.clear()
    a_store(tmp_path / "store").close()


@pytest.mark.parametrize("call", ["unlink", "fsync"])
def test_a_close_that_fails_lets_the_directory_go(faults: Faults, tmp_path: Path, call: str) -> None:
    store = a_store(tmp_path / "store")
    store.put(Message("orders", b"x"))
    faults.add(fail(errno.EIO), call=call, path=LOG)
    with pytest.raises((EmberError, OSError)):
        store.close()
    faults.clear()
    a_store(tmp_path / "store").close()


@pytest.mark.parametrize("call", ["create", "fsync", "replace"])
def test_a_topic_that_cannot_be_saved_refuses_the_put_in_our_words(faults: Faults, tmp_path: Path, call: str) -> None:
    with a_store(tmp_path / "store") as store:
        faults.add(fail(errno.ENOSPC), call=call, path="config")
        with pytest.raises(StoreUnwritable, match="config"):
            store.put(Message("orders", b"x"))
        faults.clear()
        assert store.put(Message("orders", b"x")).offset == 0


@pytest.mark.parametrize("call", ["create", "posix_fallocate", "fsync"])
def test_a_broken_disk_is_not_called_a_full_one(faults: Faults, tmp_path: Path, call: str) -> None:
    store = a_store(tmp_path / "store", prepare_files=False)
    store.put(Message("orders", b"x"))
    faults.add(fail(errno.EIO), call=call, path=LOG)
    with pytest.raises(EmberError) as caught:
        while True:
            store.put(Message("orders", bytes(20_000)))
    store.close()
    assert "disk full" not in str(caught.value)


def test_a_commit_that_fails_in_a_put_is_told_as_a_failed_sync(faults: Faults, tmp_path: Path) -> None:
    lazy = {"commit_interval_ms": 60_000, "commit_thorough_interval_ms": 60_000, "flush_interval_ms": 60_000}
    store = a_store(tmp_path / "store", durability="pooled", pool_buffers=1, **lazy)
    faults.add(fail(errno.EIO), call="pwrite", path=LOG)
    errors: list[Exception] = []
    for _ in range(10):
        try:
            store.put(Message("orders", bytes(20_000)))
        except EmberError as error:
            errors.append(error)
    with pytest.raises(SyncFailed):
        store.close()
    assert errors and all(isinstance(error, SyncFailed) for error in errors)


def test_a_put_that_finds_a_sealed_file_is_refused_like_all_others(tmp_path: Path) -> None:
    store = a_store(tmp_path / "store", durability="sync")
    store.put(Message("orders", b"x"))
    store._parts.commit_log.chain.files[-1].seal()  # what a failed sync does first
    try:
        with pytest.raises(StoreUnwritable):
            store.put(Message("orders", b"y"))
    finally:
        with contextlib.suppress(EmberError):
            store.close()


def test_a_checkpoint_that_cannot_be_written_says_so_in_our_words(faults: Faults, tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put(Message("orders", b"x"))
        faults.add(fail(errno.EIO), call="fdatasync", path="store/checkpoint")
        try:
            with pytest.raises(EmberError, match="checkpoint"):
                store.checkpoint()
        finally:
            faults.clear()


def test_a_close_after_a_failed_sync_of_a_queue_raises_that_failure(faults: Faults, tmp_path: Path) -> None:
    store = a_store(tmp_path / "store")
    store.put(Message("orders", b"x"))
    faults.add(fail(errno.EIO), call="fdatasync", path="consumequeue")
    with pytest.raises(SyncFailed):
        store.checkpoint()
    with pytest.raises(SyncFailed):
        store.close()
