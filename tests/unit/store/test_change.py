"""Settings that are changed while a store is open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embermq.errors import BodyTooLarge, DiskFull, SettingsError, StoreClosed
from embermq.store.settings import CHANGEABLE, StoreSettings
from tests.builders import ManualClock, a_message, a_store, some_messages, wait_until


def test_a_larger_body_is_taken_at_once(tmp_path: Path) -> None:
    with a_store(tmp_path, max_message_size=100) as store:
        with pytest.raises(BodyTooLarge):
            store.put(a_message(body=b"x" * 200))
        store.change(max_message_size=200)
        store.put(a_message(body=b"x" * 200))
        with pytest.raises(BodyTooLarge, match="limit 200"):
            store.put(a_message(body=b"x" * 201))


def test_a_shorter_retention_counts_from_the_next_round(tmp_path: Path) -> None:
    clock = ManualClock()
    with a_store(tmp_path, clock=clock, retention_hours=72, delete_pause_ms=0, disk_max_ratio=1.0) as store:
        store.put_many(some_messages(1000))
        clock.advance(hours=2)
        assert store.clean() == 0
        store.change(retention_hours=1)
        assert store.clean() > 0


def test_a_full_disk_is_seen_by_its_new_limit(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        store.put(a_message())
        store.change(reserve_bytes=2**62)
        wait_until(lambda: not store.state().writable)
        with pytest.raises(DiskFull, match="reserve_bytes"):
            store.put(a_message())
        store.change(reserve_bytes=0)
        wait_until(lambda: store.state().writable)
        store.put(a_message())


@pytest.mark.parametrize("changes", [{"durability": "sync"}, {"log_paths": ("x",)}, {"no_such": 1}])
def test_what_is_fixed_stays(tmp_path: Path, changes: dict[str, Any]) -> None:
    with a_store(tmp_path) as store:
        before = store.settings
        with pytest.raises(SettingsError, match="cannot be changed while the store is open"):
            store.change(retention_hours=1, **changes)
        assert store.settings is before


def test_a_value_that_cannot_be_changes_nothing(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        before = store.settings
        with pytest.raises(SettingsError, match="disk_max_ratio"):
            store.change(retention_hours=1, disk_max_ratio=3.0)
        assert store.settings is before


def test_a_closed_store_changes_nothing(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.close()
    with pytest.raises(StoreClosed):
        store.change(retention_hours=1)


def test_every_changeable_setting_is_one_of_the_store() -> None:
    settings = StoreSettings()
    assert all(hasattr(settings, name) for name in CHANGEABLE)
