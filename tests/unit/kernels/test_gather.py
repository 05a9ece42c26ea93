"""Records gathered by a kernel: those that a read of the queue finds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from embermq.files.file_chain import FileChain
from embermq.format.queue_entry import PRE_BLANK_SIZE, QUEUE_ENTRY_SIZE, QueueEntry, encode_queue_entry
from embermq.kernels.gather import (
    ENOUGH,
    ENTRIES_DONE,
    OUTPUT_FULL,
    UNUSUAL,
    Gathered,
    LogFiles,
    WantedCodes,
    gather_into,
)
from embermq.kernels.memory import address_of
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.placed import Run
from embermq.model.subscription import TagFilter
from embermq.store.reading import _read_plain, read_queue
from embermq.store.store import Store
from tests.builders import a_placed, a_store, some_messages
from tests.unit.kernels.sent_frames import CASES

FILE_SIZE = 4_096
FILES = 3
ALL = WantedCodes()


class Log:
    """A log of random bytes in files, and a kernel's view of it."""

    def __init__(self, path: Path, random: Random) -> None:
        self.chain = FileChain(path, FILE_SIZE)
        for number in range(FILES):
            size = FILE_SIZE if number < FILES - 1 else FILE_SIZE // 2
            file = self.chain.append_file()
            file.append(random.randbytes(size))
        self.files = files_of(self.chain)


def files_of(chain: FileChain) -> LogFiles:
    return LogFiles((file.start, file.committed, address_of(file.view)) for file in chain.files)


def gather(
    data: bytes, files: LogFiles, *, codes: WantedCodes = ALL, limit: int, max_bytes: int, room: int = 1 << 16
) -> tuple[bytes, Gathered]:
    out = np.zeros(max(room, 1), np.uint8)
    source = address_of(data) if data else 0
    got = gather_into(int(out.ctypes.data), room, source, len(data), files, codes, limit=limit, max_bytes=max_bytes)
    return out[: got.size].tobytes(), got


def random_entry(random: Random) -> QueueEntry:
    position = random.randrange(FILE_SIZE * FILES)
    size = random.choice((1, 10, 100, 500))
    if random.random() < 0.02:
        position = random.choice((-1, 2**63 - 1, -(2**63), FILE_SIZE - 1, FILE_SIZE * FILES, 2**62))
    if random.random() < 0.02:
        size = random.choice((0, -1, 2**31 - 1, -(2**31), FILE_SIZE, PRE_BLANK_SIZE))
    return QueueEntry(position, size, random.choice((1, 2, 3, -5, 2**32 + 1, -(2**31))))


def a_queue(path: Path, entries: list[QueueEntry]) -> ConsumeQueue:
    """A queue with these entries, whatever they are, behind a sound one."""
    queue = ConsumeQueue(path, "orders", 0, file_size=QUEUE_ENTRY_SIZE * 3_000)
    queue.put([a_placed(size=10)])
    queue.put_run(Run(b"orders", 0, 1, list(map(encode_queue_entry, entries))))
    return queue


@pytest.mark.parametrize("cases", CASES)
def test_the_bytes_are_those_of_a_plain_read(cases: int, tmp_path: Path) -> None:
    random = Random(cases)
    log = Log(tmp_path / "log", random)
    entries = [random_entry(random) for _ in range(8_000)]  # more than two files of the queue
    queue = a_queue(tmp_path / "queue", entries)
    found = 0
    for _ in range(cases):
        offset, limit = random.randrange(1, queue.max_offset), random.randrange(1, 25)
        max_bytes = random.choice((1, 50, 700, 1 << 20))
        plain = _read_plain(queue, log.chain, offset, limit=limit, max_bytes=max_bytes)
        data = b"".join(map(encode_queue_entry, entries[offset - 1 : offset - 1 + limit]))
        written, got = gather(data, log.files, limit=limit, max_bytes=max_bytes)
        assert written == b"".join(part for _, _, part in plain)
        assert got.records == got.entries == len(plain)
        found += got.records
    assert found > cases
    log.chain.close()
    queue.close()


def a_filled_store(path: Path) -> Store:
    store = a_store(path)
    for message in some_messages(200, size=700):  # more than one file of the log
        store.put(message)
    store.settle()
    return store


def queue_and_log(store: Store) -> tuple[ConsumeQueue, FileChain, bytes]:
    """A queue with many entries, the log, and the bytes of the entries."""
    chain = store._parts.commit_log.chain
    queue = max(
        (store._parts.queues.find("orders", number) for number in store.queues("orders")),
        key=lambda queue: 0 if queue is None else queue.max_offset,
    )
    assert isinstance(queue, ConsumeQueue)
    entries = queue.read(0, queue.max_offset)
    assert len(entries) == queue.max_offset >= 20
    return queue, chain, b"".join(map(encode_queue_entry, entries))


@pytest.mark.parametrize("expression", ["*", "tag0", "tag1 || tag2", "other"])
def test_a_real_queue_with_and_without_a_filter(expression: str, tmp_path: Path) -> None:
    wanted = TagFilter.parse(expression)
    with a_filled_store(tmp_path) as store:
        queue, chain, data = queue_and_log(store)
        assert len(chain.files) > 1
        files, codes = files_of(chain), WantedCodes(wanted.codes)
        accept = wanted.accepts_code if wanted.codes else None
        for offset in range(queue.max_offset):
            for limit, max_bytes in ((1, 1), (3, 1 << 20), (50, 3_000)):
                found = read_queue(
                    queue, store._parts.commit_log, offset, limit=limit, max_bytes=max_bytes, accept=accept
                )
                rest = data[offset * QUEUE_ENTRY_SIZE :]
                if accept is None:
                    rest = rest[: limit * QUEUE_ENTRY_SIZE]
                written, got = gather(rest, files, codes=codes, limit=limit, max_bytes=max_bytes, room=1 << 18)
                assert written == b"".join(part for _, _, part in found.records)
                assert offset + got.entries == found.next_offset
                assert got.records == len(found.records)
                assert got.reason in (ENTRIES_DONE, ENOUGH)


def test_it_stops_where_the_next_record_does_not_fit(tmp_path: Path) -> None:
    log = Log(tmp_path, Random(1))
    data = encode_queue_entry(QueueEntry(5, 100, 0)) * 3
    assert gather(data, log.files, limit=9, max_bytes=999, room=250)[1] == (2, 2, 200, OUTPUT_FULL)
    assert gather(data, log.files, limit=9, max_bytes=999, room=99)[1] == (0, 0, 0, OUTPUT_FULL)
    assert gather(data, log.files, limit=9, max_bytes=999, room=300)[1] == (3, 3, 300, ENTRIES_DONE)
    assert gather(data, log.files, limit=2, max_bytes=999)[1] == (2, 2, 200, ENOUGH)
    assert gather(data, log.files, limit=9, max_bytes=299)[1] == (2, 2, 200, ENOUGH)
    assert gather(data, log.files, limit=9, max_bytes=1)[1] == (1, 1, 100, ENOUGH), "one at least"
    log.chain.close()


@pytest.mark.parametrize(
    "entry",
    [
        QueueEntry(0, PRE_BLANK_SIZE, 0), QueueEntry(-1, 10, 0), QueueEntry(0, 0, 0), QueueEntry(0, -1, 0),
        QueueEntry(FILE_SIZE - 5, 10, 0), QueueEntry(FILE_SIZE * FILES, 1, 0), QueueEntry(2**63 - 1, 2**31 - 1, 0),
        QueueEntry(FILE_SIZE * (FILES - 1) + FILE_SIZE // 2, 1, 0),
        QueueEntry(FILE_SIZE * (FILES - 1) + FILE_SIZE // 2 - 1, 2, 0),
    ],
)  # fmt: skip
def test_it_stops_at_an_entry_that_is_unusual(entry: QueueEntry, tmp_path: Path) -> None:
    log = Log(tmp_path, Random(1))
    data = encode_queue_entry(QueueEntry(5, 100, 0)) + encode_queue_entry(entry)
    assert gather(data, log.files, limit=9, max_bytes=1 << 40)[1] == (1, 1, 100, UNUSUAL)
    assert gather(data, LogFiles([]), limit=9, max_bytes=1)[1] == (0, 0, 0, UNUSUAL)
    log.chain.close()


def test_an_address_of_an_extended_entry_is_no_tags_code(tmp_path: Path) -> None:
    log = Log(tmp_path, Random(1))
    data = encode_queue_entry(QueueEntry(5, 100, -(2**63) + 7))
    wanted = WantedCodes([7])
    assert gather(data, log.files, codes=wanted, limit=9, max_bytes=999)[1] == (0, 0, 0, UNUSUAL)
    assert gather(data, log.files, limit=9, max_bytes=999)[1] == (1, 1, 100, ENTRIES_DONE)
    log.chain.close()
