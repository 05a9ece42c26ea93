"""Runs the same work with plain code and with kernels, and damages stores for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from embermq.kernels import loading

T = TypeVar("T")
FOLDERS = ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index")


def both_ways(work: Callable[[], T], monkeypatch: pytest.MonkeyPatch) -> tuple[T, T]:
    """What `work` gives with plain code, and with kernels."""
    monkeypatch.setenv("EMBERMQ_ENGINE", "off")
    plain = work()
    monkeypatch.delenv("EMBERMQ_ENGINE")
    loading.load()
    return plain, work()


def files_of(path: Path) -> list[Path]:
    """The files of log, queues and index that hold something."""
    found = (file for folder in FOLDERS for file in sorted((path / folder).rglob("*")))
    return [file for file in found if file.is_file() and file.read_bytes().strip(b"\0")]


@contextmanager
def damaged(random: Random, file: Path) -> Iterator[str]:
    """Change some bytes of `file`; gives what was done, and takes it back in the end."""
    before = file.read_bytes()
    used = len(before.rstrip(b"\0"))
    at = random.randrange(used)
    match random.randrange(6):
        case 0:
            at = random.randrange(min(used + 20, len(before)))
            data = bytes([before[at] ^ 1 << random.randrange(8)])
        case 1:
            data = bytes(random.choice((1, 4, 8, 20, 300, len(before) - at)))
        case 2:
            data = random.randbytes(random.choice((1, 4, 8, 100)))
        case 3:  # a part of the file in another place of it
            begin = random.randrange(used)
            data = before[begin : begin + random.choice((20, 91, 400))]
        case 4:  # behind the end
            at = used + random.choice((0, 1, 7, 100))
            data = random.choice((b"\1", before[:200], bytes(8) + b"garbage"))
        case _:  # where heads and entries are
            at -= at % 20
            data = bytes([random.randrange(256)])
    data = data[: max(len(before) - at, 0)]
    _write(file, at, data)
    try:
        yield f"{file.name}: {data[:20]!r} at {at}"
    finally:
        _write(file, at, before[at : at + len(data)])


def _write(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)
