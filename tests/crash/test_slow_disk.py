"""A disk that takes its time: puts slow down, what waits stays bounded, and whoever waits too long is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq import Message
from embermq.errors import FlushTimeout, StoreBusy
from tests.builders import a_store, read_all, wait_until
from tests.crash.faults import Faults, slow

LOG = "commitlog"


@pytest.fixture
def faults() -> Iterator[Faults]:
    with Faults() as installed:
        yield installed


def test_puts_that_wait_together_share_one_sync(faults: Faults, tmp_path: Path) -> None:
    with a_store(tmp_path / "store", durability="sync") as store:
        store.put(Message("orders", b"first"))
        faults.add(slow(0.1), call="pwritev", path=LOG)
        syncs, began = store.state().syncs, time.monotonic()
        threads = [threading.Thread(target=store.put, args=(Message("orders", b"x"),)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - began >= 0.1, "a put may not return before its sync"
        assert store.state().syncs - syncs <= 4
        faults.clear()
        assert sum(map(len, read_all(store).values())) == 17


@pytest.mark.parametrize("durability", ["async", "pooled"])
def test_what_waits_for_the_disk_is_bounded_and_puts_are_refused_in_time(
    faults: Faults, tmp_path: Path, durability: str
) -> None:
    limit, size = 100_000, 10_000
    with a_store(
        tmp_path / "store",
        durability=durability,
        max_unflushed_bytes=limit,
        busy_wait_ms=100,
        flush_interval_ms=5,
        commit_interval_ms=5,
    ) as store:
        store.put(Message("orders", b"first"))
        faults.add(slow(0.7), call="fdatasync", path=LOG)
        accepted, most, waited = 0, 0, 0.0
        with pytest.raises(StoreBusy, match=f"limit {limit}") as caught:
            for _ in range(200):
                began = time.monotonic()
                try:
                    store.put(Message("orders", bytes(size), queue=0))
                finally:
                    waited = time.monotonic() - began
                accepted += 1
                most = max(most, store.state().flush_behind)
        faults.clear()
        assert accepted >= limit // (size + 200), "refused though there was room"
        assert most <= limit + 2 * (size + 200), "one message, and what is left of a file it did not fit into"
        assert caught.value.behind >= limit
        assert 0.1 <= waited < 0.6
        wait_until(lambda: store.state().flush_behind == 0)
        store.put(Message("orders", b"last", queue=0))
        wait_until(lambda: store.state().dispatch_behind == 0)
        assert len(read_all(store)["orders", 0]) >= accepted


def test_a_disk_that_is_nearly_there_can_be_waited_for(faults: Faults, tmp_path: Path) -> None:
    with a_store(tmp_path / "store", durability="async", max_unflushed_bytes=20_000) as store:
        store.put(Message("orders", b"first"))
        store.wait_for_disk(store.dispatched)
        faults.add(slow(2), call="fdatasync", path=LOG)
        store.put(Message("orders", bytes(30_000)))
        assert store.is_behind()
        assert store.is_behind(wait_ms=1)
        assert not store.is_behind(wait_ms=20_000)
        faults.clear()


def test_a_put_that_waits_too_long_is_told_that_it_may_survive(faults: Faults, tmp_path: Path) -> None:
    with a_store(tmp_path / "store", durability="sync", sync_timeout_ms=50) as store:
        store.put(Message("orders", b"first", queue=0))
        faults.add(slow(0.4), call="pwritev", path=LOG)
        began = time.monotonic()
        with pytest.raises(FlushTimeout, match="may survive"):
            store.put(Message("orders", b"second", queue=0))
        assert time.monotonic() - began < 0.3
        assert read_all(store)["orders", 0] == [b"first"], "not visible before it is on disk"
        faults.clear()
        wait_until(lambda: read_all(store)["orders", 0] == [b"first", b"second"])
        assert store.put(Message("orders", b"third", queue=0)).offset == 2


def test_a_slow_checkpoint_holds_up_no_put(faults: Faults, tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put(Message("orders", b"x", queue=0))
        faults.add(slow(0.5), call="fdatasync", path="consumequeue")
        thread = threading.Thread(target=store.checkpoint)
        began = time.monotonic()
        thread.start()
        wait_until(lambda: any(kind == "fdatasync" and "consumequeue" in path for kind, path in faults.calls))
        store.put(Message("orders", b"y", queue=0))
        assert time.monotonic() - began < 0.4
        thread.join()
        faults.clear()
