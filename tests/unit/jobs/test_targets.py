"""Directories that jobs make: whole, or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.errors import StoreLocked
from embermq.jobs.errors import NoRoom, TargetExists
from embermq.jobs.targets import building, check_target


def test_a_directory_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "made"
    with building(target) as folder:
        (folder / "file").write_text("content")
        assert not target.exists()
    assert (target / "file").read_text() == "content"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_of_a_job_that_fails(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), building(tmp_path / "made") as folder:
        (folder / "half").write_text("half")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "file").touch()
    for name in ("full", "file"):
        with pytest.raises(TargetExists, match="exists already"), building(tmp_path / name):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full"]


def test_an_empty_directory_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with building(tmp_path / "empty") as folder:
        (folder / "file").touch()
    assert (tmp_path / "empty" / "file").exists()


def test_a_target_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "made"
    with pytest.raises(TargetExists), building(target) as folder:
        (folder / "mine").touch()
        target.mkdir()
        (target / "theirs").touch()
    assert [path.name for path in target.iterdir()] == ["theirs"]


def test_what_a_killed_job_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / ".made.unfinished" / "result"
    left.mkdir(parents=True)
    (left / "half").touch()
    with building(tmp_path / "made") as folder:
        assert list(folder.iterdir()) == []


def test_two_do_not_build_the_same(tmp_path: Path) -> None:
    with building(tmp_path / "made"), pytest.raises(StoreLocked, match="being made"), building(tmp_path / "made"):
        pass
    assert (tmp_path / "made").is_dir()


def test_no_space_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(NoRoom, match="bytes, "):
        check_target(tmp_path / "made", needs=1 << 62)
    assert list(tmp_path.iterdir()) == []
