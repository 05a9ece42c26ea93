from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from embermq.errors import CorruptRecord
from embermq.files.durable import make_directory, read_with_backup, replace_file, sync_directory, write_aside


class Crash(BaseException):
    """The process ends here."""


def steps(monkeypatch: pytest.MonkeyPatch, before: Callable[[str], None]) -> None:
    """Call `before` with the name of each step that changes the disk or syncs it."""

    def watch(name: str) -> None:
        real = getattr(os, name)

        def step(*arguments: object, **options: object) -> object:
            before(name)
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, step)

    for name in ("fsync", "replace", "link", "unlink"):
        watch(name)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    replace_file(path, b"one")
    replace_file(path, b"two")
    assert content(tmp_path) == {"topics.json": b"two"}


def test_the_content_before_is_kept_as_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    replace_file(path, b"one", keep_backup=True)
    assert content(tmp_path) == {"topics.json": b"one"}
    replace_file(path, b"two", keep_backup=True)
    replace_file(path, b"three", keep_backup=True)
    assert content(tmp_path) == {"topics.json": b"three", "topics.json.bak": b"two"}


def test_a_backup_is_a_copy_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    replace_file(tmp_path / "table", b"one", keep_backup=True)
    replace_file(tmp_path / "table", b"two", keep_backup=True)
    assert content(tmp_path) == {"table": b"two", "table.bak": b"one"}


def test_the_new_content_is_on_disk_before_its_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    replace_file(tmp_path / "table", b"one")
    steps(monkeypatch, seen.append)
    replace_file(tmp_path / "table", b"two", keep_backup=True)
    assert [name for name in seen if name != "unlink"] == ["fsync", "link", "replace", "replace", "fsync"]


def test_there_is_a_whole_file_wherever_the_process_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, bytes]] = []
    replace_file(tmp_path / "table", b"zero")
    replace_file(tmp_path / "table", b"one", keep_backup=True)
    steps(monkeypatch, lambda name: found.append(content(tmp_path)))
    replace_file(tmp_path / "table", b"two", keep_backup=True)
    assert len(found) >= 5
    for state in found:
        assert state["table"] in (b"one", b"two")
        assert state["table.bak"] in (b"zero", b"one")


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_file(tmp_path / "table", b"one")

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        replace_file(tmp_path / "table", b"two", keep_backup=True)
    assert content(tmp_path) == {"table": b"one"}


def test_left_overs_of_a_crash_do_not_matter(tmp_path: Path) -> None:
    for name in ("table.tmp", "table.bak.tmp"):
        (tmp_path / name).write_bytes(b"a long left-over")
    replace_file(tmp_path / "table", b"one", keep_backup=True)
    replace_file(tmp_path / "table", b"two", keep_backup=True)
    assert content(tmp_path) == {"table": b"two", "table.bak": b"one"}


# Reading


def decode(data: bytes) -> str:
    """Takes what begins with `ok`."""
    if not data.startswith(b"ok"):
        raise CorruptRecord(0, "not ok")
    return data.decode("ascii")


@pytest.mark.parametrize(("main", "backup", "expected"), [
    (b"ok 1", b"ok 2", "ok 1"),
    (None, b"ok 2", "ok 2"),
    (b"", b"ok 2", "ok 2"),
    (b"torn", b"ok 2", "ok 2"),
    (b"ok \xff", b"ok 2", "ok 2"),  # a ValueError is as good as a CorruptRecord
    (b"ok 1", b"torn", "ok 1"),
    (None, None, None),
    (b"", None, None),
    (None, b"", None),
])  # fmt: skip
def test_the_backup_is_read_when_the_file_cannot_be(
    tmp_path: Path, main: bytes | None, backup: bytes | None, expected: str | None
) -> None:
    before = {name: data for name, data in (("table", main), ("table.bak", backup)) if data is not None}
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)
    assert read_with_backup(tmp_path / "table", decode) == expected
    assert content(tmp_path) == before


@pytest.mark.parametrize(("main", "backup"), [(b"torn", b"torn"), (None, b"torn"), (b"torn", None), (b"torn", b"")])
def test_content_that_nothing_can_be_made_of_is_an_error(
    tmp_path: Path, main: bytes | None, backup: bytes | None
) -> None:
    for name, data in (("table", main), ("table.bak", backup)):
        if data is not None:
            (tmp_path / name).write_bytes(data)
    with pytest.raises(CorruptRecord):
        read_with_backup(tmp_path / "table", decode)


def test_the_use_of_a_backup_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "table").write_bytes(b"torn")
    (tmp_path / "table.bak").write_bytes(b"ok")
    with caplog.at_level(logging.WARNING):
        read_with_backup(tmp_path / "table", decode)
    assert "backup used" in caplog.text and "not ok" in caplog.text


# Aside


def test_bytes_kept_aside_never_overwrite_others(tmp_path: Path) -> None:
    path = tmp_path / "broken" / "5000.broken"
    made = [
        write_aside(path, [b"first ", memoryview(b"part")]),
        write_aside(path, [b"second"]),
        write_aside(path, []),
    ]
    assert [file.name for file in made] == ["5000.broken", "5000.broken.1", "5000.broken.2"]
    assert [file.read_bytes() for file in made] == [b"first part", b"second", b""]


# Directories


def test_directories_are_made_with_their_parents_and_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    make_directory(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_a_file_is_not_synced_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        sync_directory(tmp_path / "file")
