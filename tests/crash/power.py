"""A disk whose power can be cut: ext4 in a file, on a loop device.

The shutdown call of ext4 drops everything that is not on the disk at that moment, the
journal's last commits included, and fails every call from then on. Unmounted and mounted
again, the file system is what it would be after the machine lost its power.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Self

import pytest

from tests.builders import wait_until

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32)
_NO_LOG_FLUSH = struct.pack("I", 2)
_SIZE = 96 << 20


class PowerDisk:
    """An ext4 file system of its own, mounted at `path` while entered."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "disk"
        self._image = folder / "image"

    def __enter__(self) -> Self:
        self.path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(_SIZE)
        # Nothing is left to be initialised in the background, which would outlive an unmount.
        _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(self._image))
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=False)

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def cut(self) -> None:
        """Take the power away: from now on nothing reaches the disk."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(descriptor)

    def restart(self) -> None:
        """Give it the power back."""
        # A process that was just killed may hold it for a moment.
        wait_until(lambda: subprocess.run(["umount", str(self.path)], capture_output=True, check=False).returncode == 0)
        self.mount()


def skip_without_power_disk() -> None:
    """Skip the test where such a disk cannot be had."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a disk whose power can be cut")
    if shutil.which("mkfs.ext4") is None or not Path("/dev/loop-control").exists():
        pytest.skip("needs mkfs.ext4 and loop devices, for a disk whose power can be cut")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk whose power can be cut: {' '.join(command)}: {done.stderr.strip()}")
