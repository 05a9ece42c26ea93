from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import embermq.errors
from embermq.errors import StoreLocked
from embermq.files.lock import DirectoryLock, is_locked

SOURCE = Path(embermq.errors.__file__).parents[1]

HOLD = """
import sys
from pathlib import Path
from embermq.files.lock import DirectoryLock
with DirectoryLock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""

TRY = """
import sys
from pathlib import Path
from embermq.errors import StoreLocked
from embermq.files.lock import DirectoryLock, is_locked
print(is_locked(Path(sys.argv[1])))
try:
    DirectoryLock(Path(sys.argv[1])).take()
    print("taken")
except StoreLocked as error:
    print(error)
"""


def start(script: str, root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(root)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def try_elsewhere(root: Path) -> list[str]:
    """What another process finds: whether it is locked, then what came of taking the lock."""
    with start(TRY, root) as process:
        output, _ = process.communicate(timeout=30)
    return output.splitlines()


@contextmanager
def held_elsewhere(root: Path) -> Iterator[subprocess.Popen[str]]:
    with start(HOLD, root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.communicate("", timeout=30)


def test_taking_the_lock_makes_the_directory_and_the_lock_file(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path / "new" / "store") as lock:
        assert lock.is_held
        assert (tmp_path / "new" / "store" / "lock").read_bytes() == b"lock"
    assert not lock.is_held


def test_another_process_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        locked, answer = try_elsewhere(tmp_path)
    assert locked == "True"
    assert str(tmp_path) in answer and f"process {os.getpid()}" in answer


def test_a_lock_of_another_process_is_seen_and_named_here(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        assert is_locked(tmp_path)
        with pytest.raises(StoreLocked, match=f"process {process.pid}"):
            DirectoryLock(tmp_path).take()
    assert not is_locked(tmp_path)
    DirectoryLock(tmp_path).take()


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    with start(HOLD, tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.wait(timeout=30)
    with DirectoryLock(tmp_path):
        assert is_locked(tmp_path)


def test_the_same_process_is_refused_too_and_keeps_the_lock_it_has(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "other name").symlink_to(tmp_path / "store")
    with DirectoryLock(tmp_path / "store"):
        for root in (tmp_path / "store", tmp_path / "other name"):
            with pytest.raises(StoreLocked, match="this process"):
                DirectoryLock(root).take()
        # Closing a second descriptor of the file would have dropped the lock.
        assert try_elsewhere(tmp_path / "store")[0] == "True"


def test_looking_does_not_drop_or_take_the_lock(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    assert not (tmp_path / "lock").exists()
    with DirectoryLock(tmp_path):
        assert is_locked(tmp_path)
        assert try_elsewhere(tmp_path)[0] == "True"
    assert not is_locked(tmp_path)
    assert try_elsewhere(tmp_path) == ["False", "taken"]


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    for _ in range(2):
        lock.take()
        lock.release()
        lock.release()
    with DirectoryLock(tmp_path):
        assert is_locked(tmp_path)


def test_a_lock_file_that_cannot_be_opened_leaves_nothing_held(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    lock = DirectoryLock(tmp_path)
    with pytest.raises(IsADirectoryError):
        lock.take()
    assert not lock.is_held
    (tmp_path / "lock").rmdir()
    lock.take()
    lock.release()
