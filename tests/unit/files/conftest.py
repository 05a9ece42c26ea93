"""What the tests of files share."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Waits for a condition that another thread brings about; fails after ten seconds."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.001)

    return wait


@contextmanager
def mounted(folder: Path, *commands: list[str]) -> Iterator[Path]:
    """`folder` with the file system that `commands` make and mount; a skip where that is not allowed."""
    folder.mkdir()
    try:
        for command in commands:
            subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no right, or no tool, to make and mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB in memory, where the user may mount one."""
    folder = tmp_path / "disk"
    with mounted(folder, ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]):
        yield folder


@pytest.fixture
def small_ext4(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 MiB, where the user may mount one."""
    folder, image = tmp_path / "ext4", tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    make = ["mkfs.ext4", "-q", "-m", "0", str(image)]
    with mounted(folder, make, ["mount", "-o", "loop", str(image), str(folder)]):
        yield folder
