"""The folder of compiled code: where it is, that nobody else can put code into it, and when it is stale or unused."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from embermq.errors import CacheUnsafe
from embermq.kernels import cache_folder, cache_name
from embermq.kernels.cache_folder import (
    check_private,
    find_folder,
    is_complete,
    make_private,
    mark_complete,
    mark_name,
    remove_unused,
)

NAME = cache_name.cache_name()
SOURCE = Path(__file__).parents[3] / "src" / "embermq"
EIGHT_DAYS = 8 * 24 * 3600


def test_it_is_in_the_folder_that_was_chosen_or_in_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBERMQ_CACHE", str(tmp_path / "chosen"))
    assert find_folder() == tmp_path / "chosen" / NAME
    monkeypatch.delenv("EMBERMQ_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert find_folder() == tmp_path / "xdg" / "embermq" / "kernels" / NAME
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_folder() == tmp_path / ".cache" / "embermq" / "kernels" / NAME


def test_nobody_else_may_write_into_it(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / NAME
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    make_private(folder)  # as it is
    for path in (folder, folder.parent):
        path.chmod(0o770)
        with pytest.raises(CacheUnsafe, match="0770") as caught:
            check_private(folder)
        assert str(path) in str(caught.value)
        path.chmod(0o700)


def test_it_must_be_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache" / NAME
    make_private(folder)
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(CacheUnsafe, match="12345"):
        check_private(folder)
    assert not is_complete(folder)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / NAME
    folder.parent.mkdir(mode=0o700)
    folder.touch()
    with pytest.raises(CacheUnsafe, match="no folder"):
        check_private(folder)
    assert not is_complete(folder)


def test_it_is_complete_from_its_mark_on_and_as_long_as_nobody_else_can_change_it(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / NAME
    assert not is_complete(folder)
    make_private(folder)
    assert not is_complete(folder)
    mark_complete(folder)
    assert is_complete(folder)
    folder.chmod(0o707)
    assert not is_complete(folder)


def test_the_mark_is_stale_when_the_machine_or_a_package_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = mark_name()
    assert mark_name() == now
    with monkeypatch.context() as other:
        other.setattr(cache_folder, "_version_of", lambda package: "0.0" if package == "llvmlite" else "1.0")
        assert mark_name() != now
    with monkeypatch.context() as other:
        other.setattr(cache_folder, "_processor", lambda: "another")
        assert mark_name() != now
    with monkeypatch.context() as other:
        other.setenv("NUMBA_CPU_NAME", "generic")
        assert mark_name() != now
    with monkeypatch.context() as other:
        other.setenv("NUMBA_CACHE_DIR", "elsewhere")
        assert mark_name() == now


def test_the_name_changes_with_kernels_and_what_they_take_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(SOURCE, tmp_path / "embermq", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache_name, "_PACKAGE", tmp_path / "embermq")
    names = {cache_name.cache_name()}
    assert names == {NAME}
    for changed in ("kernels/loading.py", "kernels/commands.py", "store/store.py"):
        _change(tmp_path / "embermq" / changed)
        assert cache_name.cache_name() == NAME
    for count, changed in enumerate(("kernels/crc.py", "kernels/columns.py", "format/record_layout.py"), start=2):
        _change(tmp_path / "embermq" / changed)
        names.add(cache_name.cache_name())
        assert len(names) == count


def _change(path: Path) -> None:
    path.write_text(path.read_text() + "\n# changed\n")


def test_folders_of_former_kernels_go_after_a_week(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    old, young, foreign, unmarked = (tmp_path / name for name in ("kernels-old", "kernels-young", "x", "kernels-bare"))
    for path in (folder, old, young, foreign):
        make_private(path)
        mark_complete(path)
    make_private(unmarked)
    link = tmp_path / "kernels-link"
    link.symlink_to(foreign)
    then = time.time() - EIGHT_DAYS
    for path in (folder, old, foreign, unmarked):
        os.utime(path, (then, then))
    assert remove_unused(folder) == [old]
    assert sorted(tmp_path.iterdir()) == sorted([folder, young, foreign, unmarked, link])


def test_a_folder_that_is_in_use_stays_young(tmp_path: Path) -> None:
    used, folder = tmp_path / "kernels-used", tmp_path / NAME
    for path in (used, folder):
        make_private(path)
    os.utime(used, (0, 0))
    mark_complete(used)
    assert remove_unused(folder) == []
