"""The commit log: every record of every topic, in the order of arrival.

    file 0                      file 1
    ├ record │ record │ BLANK ┤ ├ record │ record │ zeros …  ┤
    0                           file_size     written ↑

A record never crosses a file. What does not fit goes to the next file, and a BLANK
record closes the space that is left; at least its 8 bytes are always kept free.

Of all that is appended at once, the first record's size and magic are written last. When the process
is killed in the middle, the log ends before it, for RocketMQ's recovery too, which takes a record
whose properties are torn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from embermq.clock import Clock
from embermq.errors import CorruptRecord, IllegalMessage, OutOfRange
from embermq.files.file_chain import FileChain
from embermq.files.mapped_file import MappedFile
from embermq.files.writing import HEAD
from embermq.format.property_crc import verify_property_crc
from embermq.format.record import (
    BLANK_SIZE,
    DraftFields,
    Record,
    decode_record,
    encode_blank,
    encode_drafts,
    read_frame,
)


class Appended(NamedTuple):
    """Where a batch went."""

    begin: int  # the log's end before it; a BLANK record may lie between that and the first position
    end: int
    positions: list[int]
    sizes: list[int]
    store_time: int


class CommitLog:
    """Appends and reads records. One thread appends; any number may read."""

    def __init__(
        self,
        chain: FileChain,
        *,
        store_host: bytes,
        clock: Clock,
        property_crc: bool = False,
        verify_properties: bool = False,
    ) -> None:
        self.chain = chain
        self.store_host = store_host
        self.last_store_time = 0
        self._clock = clock
        self._property_crc = property_crc
        self._verify_properties = verify_properties

    def append(self, drafts: Sequence[DraftFields], offsets: Sequence[int], *, together: bool = False) -> Appended:
        """Write `drafts` with their queue offsets: all of them or, when an error is raised, none.

        With `together` the records lie in one file, side by side, as those of a client's batch must.
        """
        store_time = self.next_store_time()
        file = self.chain.append_file()
        begin = file.start + file.written
        parts, sizes = self._encode(drafts, offsets, begin, store_time)
        if sum(sizes) + BLANK_SIZE <= file.size - file.written:
            file.append(b"".join(parts), head=HEAD)
            positions = _positions(begin, sizes)
        else:
            runs = plan_runs(sizes, file.size - file.written, file.size, together=together)
            self.reserve(file, runs, sizes)  # all the space before the first byte
            positions = self._append_runs(runs, drafts, offsets, store_time)
        self.chain.warm_ahead()
        self.last_store_time = store_time
        return Appended(begin, self.chain.end, positions, sizes, store_time)

    def next_store_time(self) -> int:
        """When a record that is written now is stored: never before the last one, as searches expect."""
        return max(self._clock.now_ms(), self.last_store_time)

    def close_file(self) -> None:
        """Mark the rest of the last file as blank; it counts as full from then on."""
        file = self.chain.append_file()
        file.fill(encode_blank(file.size - file.written), head=HEAD)

    def select(self, position: int, size: int) -> memoryview:
        """The `size` bytes of the log at `position`, in mapped memory. Raises OutOfRange."""
        data = self.chain.select(position, size)
        if data is None:
            raise OutOfRange("the log", asked=position, begin=self.chain.begin, end=self.chain.readable_end)
        return data

    def read(self, position: int) -> Record:
        """The record at `position`, checked whole. Raises OutOfRange or CorruptRecord."""
        data = self.chain.select_rest(position)
        if data is None:
            raise OutOfRange("the log", asked=position, begin=self.chain.begin, end=self.chain.readable_end)
        return self.decode(data, position)

    def decode(self, data: memoryview, position: int) -> Record:
        """The record that `data` begins with, checked whole. Raises CorruptRecord."""
        record = decode_record(data, position)
        if self._verify_properties and not verify_property_crc(data[: record.size]):
            raise CorruptRecord(position, "its property checksum is missing or wrong")
        return record

    def find_store_time(self, position: int, size: int) -> int | None:
        """When the record at `position` was stored; None when it is gone or is none."""
        data = self.chain.select(position, size)
        if data is None:
            return None
        try:
            return decode_record(data, position, check_body=False).store_time
        except CorruptRecord:
            return None

    def iter_slices(self, begin: int, end: int) -> Iterator[tuple[int, memoryview]]:
        """The log from `begin` to `end` as (position, bytes), one slice a file at most."""
        while begin < end:
            data = self.chain.select_rest(begin)
            if data is None:
                return
            yield begin, data[: end - begin]
            begin = self.next_file_start(begin)

    def next_file_start(self, position: int) -> int:
        """Where the file after the one that holds `position` begins."""
        return position - position % self.chain.file_size + self.chain.file_size

    def _encode(
        self, drafts: Sequence[DraftFields], offsets: Sequence[int], position: int, store_time: int
    ) -> tuple[list[bytes], list[int]]:
        return encode_drafts(
            drafts, offsets, position, store_time, self.store_host, with_property_crc=self._property_crc
        )

    def reserve(self, file: MappedFile, runs: list[int], sizes: list[int]) -> None:
        """Get the space for records of these sizes, so many of them in `file` and in each that follows it."""
        file.reserve(file.size)
        last_run = sum(sizes[len(sizes) - runs[-1] :])
        self.chain.ensure_next([*[file.size] * (len(runs) - 2), last_run])

    def _append_runs(
        self, runs: list[int], drafts: Sequence[DraftFields], offsets: Sequence[int], store_time: int
    ) -> list[int]:
        positions: list[int] = []
        for number, count in enumerate(runs):
            if number:
                self.close_file()
            file = self.chain.append_file()
            done = len(positions)
            run = slice(done, done + count)
            parts, sizes = self._encode(drafts[run], offsets[run], file.start + file.written, store_time)
            positions += _positions(file.start + file.written, sizes)
            if parts:
                file.append(b"".join(parts), head=HEAD)
        return positions


def plan_runs(sizes: Sequence[int], room: int, file_size: int, *, together: bool) -> list[int]:
    """How many of the records with `sizes` go into the current file, the next, the one after, …

    Every file keeps the 8 bytes that its BLANK record needs.
    """
    largest = sum(sizes) if together else max(sizes)
    if largest + BLANK_SIZE > file_size:
        what = "batch" if together else "record"
        raise IllegalMessage(
            f"a {what} of {largest} bytes does not fit into a log file of {file_size}; raise log_file_size"
        )
    if together:
        return [0, len(sizes)]
    runs = [0]
    for size in sizes:
        if size + BLANK_SIZE > room:
            runs.append(0)
            room = file_size
        runs[-1] += 1
        room -= size
    return runs


def frame_size(data: memoryview, position: int) -> int:
    """The size that the record at the beginning of `data` claims; checked against `data`."""
    size = read_frame(data, 0).size
    if not BLANK_SIZE < size <= len(data):
        raise CorruptRecord(position, f"a size of {size} with {len(data)} bytes left")
    return size


def _positions(begin: int, sizes: Sequence[int]) -> list[int]:
    *positions, _ = accumulate(sizes, initial=begin)
    return positions
