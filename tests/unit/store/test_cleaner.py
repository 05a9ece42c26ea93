"""Retention at work on a store, and what a short disk means for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq import Message, Store
from embermq.errors import DiskFull
from embermq.store.reading import ReadStatus
from tests.builders import ManualClock, a_store, wait_until

HOURLY = 30  # some 2 KB each: one log file an hour


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """Ten hours of messages, kept for five."""
    with a_store(tmp_path / "s", clock=clock, retention_hours=5, delete_pause_ms=0) as store:
        for hour in range(10):
            store.put_many(
                Message("orders", b"%02d" % hour + bytes(2000), keys=[f"h{hour}", "a", "b"], queue=0)
                for _ in range(HOURLY)
            )
            clock.advance(hours=1)
        yield store


def test_expired_files_go_and_queues_and_index_follow(store: Store) -> None:
    before = store.state()
    deleted = store.clean()
    after = store.state()
    assert deleted == 5, "each holds a message of the next hour, too; the sixth is as young as its youngest"
    assert after.log_files == before.log_files - deleted
    assert after.log_begin == deleted * 65_536
    low, high = store.offsets("orders", queue=0)
    assert high == 10 * HOURLY
    first = store.get("orders", queue=0, offset=low)
    assert first.status is ReadStatus.FOUND
    assert first[0].position >= after.log_begin
    assert store.get("orders", queue=0, offset=low - 1).status is ReadStatus.TOO_SMALL
    assert store.query("orders", "h0") == []
    assert len(store.query("orders", "h9")) == HOURLY
    assert after.index_files < before.index_files


def test_what_went_stays_gone_and_what_stayed_stays(store: Store, tmp_path: Path) -> None:
    store.clean()
    low, high = store.offsets("orders", queue=0)
    store.close()
    with a_store(tmp_path / "s") as again:
        assert again.offsets("orders", queue=0) == (low, high)
        assert again.state().recovered.scan.records == 0
        assert len(again.get("orders", queue=0, offset=low, limit=1000, max_bytes=10**9)) == high - low


def test_files_touched_by_a_copy_are_no_younger(store: Store, tmp_path: Path) -> None:
    for file in (tmp_path / "s" / "commitlog").iterdir():
        os.utime(file)
    assert store.clean() == 5


def test_messages_outlive_their_log_file_for_a_reader_that_has_them(store: Store) -> None:
    found = store.read("orders", queue=0, offset=0, limit=3, max_bytes=10**6)
    store.clean()
    assert [bytes(data[88:90]) for _, _, data in found.records] == [b"00"] * 3


def test_a_limit_in_bytes_is_kept_by_itself(tmp_path: Path) -> None:
    with a_store(tmp_path / "s", max_bytes=3 * 65_536, clean_interval_ms=10, delete_pause_ms=0) as store:
        for _ in range(10):
            store.put_many(Message("orders", bytes(2000), queue=0) for _ in range(30))
        wait_until(lambda: store.state().log_files <= 3 and not store.state().hung_files)
        low, high = store.offsets("orders", queue=0)
        assert high == 300
        assert len(store.get("orders", queue=0, offset=low, limit=1000, max_bytes=10**9)) == high - low


def test_a_short_disk_refuses_puts_says_why_and_takes_them_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_store(tmp_path / "s", reserve_bytes=1_000_000) as store:
        store.put(Message("orders", b"before", queue=0))
        free = FreeSpace(monkeypatch)
        free.set(999_999)
        wait_until(lambda: not store.state().writable)
        with pytest.raises(DiskFull, match=r"commitlog has 999999 bytes free, limit reserve_bytes=1000000; free some"):
            store.put(Message("orders", b"refused", queue=0))
        assert store.state().refusal is not None
        assert [message.body for message in store.get("orders", queue=0, offset=0)] == [b"before"]
        free.set(1_000_000)
        wait_until(lambda: store.state().writable, seconds=1.0)
        store.put(Message("orders", b"after", queue=0))
        assert [message.body for message in store.get("orders", queue=0, offset=0)] == [b"before", b"after"]


class FreeSpace:
    """A disk that says it has so many bytes free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = os.statvfs
        self._free: int | None = None
        monkeypatch.setattr(os, "statvfs", self._statvfs)

    def set(self, free: int) -> None:
        self._free = free

    def _statvfs(self, path: str) -> os.statvfs_result:
        real = self._real(path)
        if self._free is None:
            return real
        values = list(real)
        values[0:2] = [1, 1]  # blocks of one byte
        values[4] = self._free
        return os.statvfs_result(values)
