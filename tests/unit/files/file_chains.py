"""What the tests of chains share."""

from __future__ import annotations

from pathlib import Path

from embermq.files.file_chain import FileChain

SIZE = 8192


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


def write(chain: FileChain, data: bytes) -> None:
    """Append `data`, over as many files as it takes."""
    while data:
        file = chain.append_file()
        part = data[: file.size - file.written]
        file.append(part)
        data = data[len(part) :]


def content(count: int) -> bytes:
    """Bytes that differ from place to place."""
    return b"".join(number.to_bytes(4, "big") for number in range(count // 4 + 1))[:count]


def a_chain(folder: Path, size: int = 0) -> FileChain:
    chain = FileChain(folder, SIZE)
    chain.load()
    write(chain, content(size))
    return chain


def names(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir())
