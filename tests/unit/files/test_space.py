from __future__ import annotations

import os
from pathlib import Path

import pytest

from embermq.files.space import DiskSpace


def test_usage_is_that_of_the_file_system(tmp_path: Path) -> None:
    found, space = os.statvfs(tmp_path), DiskSpace.usage(tmp_path)
    assert space.total == found.f_blocks * found.f_frsize
    assert 0 < space.used < space.total
    assert 0 < space.free < space.total


def test_a_directory_that_is_not_there_yet_has_the_space_of_its_parent(tmp_path: Path) -> None:
    assert DiskSpace.usage(tmp_path / "not" / "yet").total == DiskSpace.usage(tmp_path).total


@pytest.mark.parametrize(("used", "free", "percent"), [
    (0, 100, 0), (1, 999, 1), (10, 990, 1), (11, 989, 2), (75, 25, 75), (100, 0, 100), (0, 0, 0),
])  # fmt: skip
def test_percent_is_rounded_up(used: int, free: int, percent: int) -> None:
    space = DiskSpace(used, free, total=used + free + 50)  # what is set aside for root counts for nobody
    assert (space.percent, space.ratio) == (percent, percent / 100)


def test_a_small_disk_fills_up(small_disk: Path) -> None:
    before = DiskSpace.usage(small_disk)
    (small_disk / "file").write_bytes(bytes(before.total // 2))
    after = DiskSpace.usage(small_disk)
    assert after.used - before.used == before.free - after.free == before.total // 2
    assert after.percent >= 50
