"""The key index of a store, read on any file system: of each file its header, and then where a key leads.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

from embermq.errors import CorruptRecord, WrongFileSize
from embermq.format.index_entry import FIRST_ENTRY, HEADER, IndexHeader, decode_index_header
from embermq.log.index_chain import Shape, is_chained, iter_chain, usual_shape
from embermq.log.key_index import detect_shape
from embermq.model.hashing import key_hash
from embermq.scan.file_system import Found, LocalFiles, OpenFile
from embermq.scan.store_files import INDEX_FOLDER, StoreFiles

_CHECKED_AFAR: Final = 4  # entries that must fit before a shape is believed, where each takes a request


class _Part(NamedTuple):
    """One file, with the header that it had when it was opened. What came later is not asked for."""

    name: str
    file: OpenFile
    header: IndexHeader

    def read(self, at: int, size: int) -> bytes:
        buffer = bytearray(size)
        found = self.file.read_into(memoryview(buffer), at)
        if found != size:
            raise CorruptRecord(at, f"index file {self.name} has {found} of the {size} bytes there")
        return bytes(buffer)

    @property
    def has_entries(self) -> bool:
        return self.header.next_entry > FIRST_ENTRY


class IndexReader:
    """The index as it was when it was opened. Use it in a `with` block."""

    def __init__(self, store: StoreFiles) -> None:
        """Raises OSError, and StoreError for files that cannot be trusted: the log tells the same."""
        files = store.find_index()
        self._stack = ExitStack()
        self._parts: list[_Part] = []
        try:
            for found in files:
                self._parts.append(self._open(store, found))
            self._shape = self._find_shape(store, files)
        except BaseException:
            self._stack.close()
            raise

    @property
    def begin_position(self) -> int:
        """Where the first record begins that the index knows of; 0 if it knows none."""
        return self._parts[0].header.begin_position if self._parts else 0

    @property
    def end_position(self) -> int:
        """Where the newest record begins that the index knows of; -1 if it knows none."""
        ends = (part.header.end_position for part in reversed(self._parts) if part.has_entries)
        return next(ends, -1)

    def iter_positions(self, topic: str, key: str, *, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Positions of records of `topic` that may have `key` and were stored in that time."""
        wanted = key_hash(topic, key)
        for part in reversed(self._parts):
            yield from iter_chain(part.read, part.header, self._shape, wanted, begin_ms=begin_ms, end_ms=end_ms)
            if part.has_entries and part.header.begin_time < begin_ms:
                break

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self, store: StoreFiles, found: Found) -> _Part:
        file = store.system.open(f"{INDEX_FOLDER}/{found.name}")
        self._stack.callback(file.close)
        part = _Part(found.name, file, IndexHeader())
        return part._replace(header=decode_index_header(part.read(0, HEADER.size)))

    def _find_shape(self, store: StoreFiles, files: Sequence[Found]) -> Shape:
        """The shape that all files have. Raises WrongFileSize or CorruptRecord."""
        for found in files:
            if found.size != files[0].size:
                path = store.name_of(f"{INDEX_FOLDER}/{found.name}")
                raise WrongFileSize(path, found=found.size, expected=files[0].size)
        if not files:
            return Shape(1, 0)
        if isinstance(store.system, LocalFiles):
            return detect_shape(Path(store.system.root) / INDEX_FOLDER / files[0].name)
        shape, first = usual_shape(files[0].size), self._parts[0]
        if shape is None or not is_chained(first.read, first.header, shape, _CHECKED_AFAR):
            raise CorruptRecord(0, f"index file {first.name}: its {files[0].size} bytes are not of the usual shape")
        return shape
