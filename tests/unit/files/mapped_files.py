"""What the tests of mapped files share."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from embermq.files.mapped_file import MappedFile

SIZE = 1 << 16
NAME = f"{SIZE * 3:020d}"


def a_file(folder: Path, *, written: int = 0, reserve_step: int = 0, size: int = SIZE) -> MappedFile:
    return MappedFile.open(folder / NAME, size, written=written, reserve_step=reserve_step)


def fail_syncs(monkeypatch: pytest.MonkeyPatch, code: int = errno.EIO) -> list[int]:
    calls: list[int] = []

    def fail(descriptor: int) -> None:
        calls.append(descriptor)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fdatasync", fail)
    return calls


def count_syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        calls.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync)
    return calls
