"""Entries that a kernel writes into queue files: those that plain code writes, and none where they are not offered."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.kernels import columns as column
from embermq.kernels.queue_entries import enter_entries
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.placed import Placed
from embermq.log.queue_table import QueueTable
from embermq.model.flags import SysFlag

FILE_SIZE = 100 * QUEUE_ENTRY_SIZE
QUEUES = 3


class Twin:
    """Queues of one topic, filled by a kernel where they offer it, or all plainly."""

    def __init__(self, folder: Path, *, with_kernel: bool) -> None:
        self.table = QueueTable()
        self.by_kernel = 0
        self._with_kernel = with_kernel
        self.queues = [
            ConsumeQueue(
                folder / str(number), "orders", number, file_size=FILE_SIZE,
                row=self.table.view(b"orders", number) if with_kernel else None,
            )
            for number in range(QUEUES)
        ]  # fmt: skip

    def put(self, items: list[Placed]) -> None:
        if not self._with_kernel:
            for item in items:
                if not item.sys_flag & SysFlag.PREPARED:
                    self.queues[item.queue].put((item,))
            return
        records = np.zeros((len(items), column.RECORD_WIDTH), np.int64)
        for row, item in zip(records, items, strict=True):
            row[column.RECORD_POSITION], row[column.RECORD_SIZE] = item.position, item.size
            row[column.RECORD_OFFSET], row[column.RECORD_SYS_FLAG] = item.offset, item.sys_flag
        codes = np.array([item.tags_code for item in items], np.int64)
        places = np.array([self.table.row(b"orders", item.queue) for item in items], np.int64)
        done = 0
        while True:
            before = done
            done = enter_entries(records, codes, places, self.table.address, len(self.table.numbers), done)
            self.by_kernel += done - before
            if done == len(items):
                return
            self.queues[items[done].queue].put((items[done],))
            done += 1

    def state(self) -> list[tuple[int, int, int, list[bytes]]]:
        return [
            (queue.min_offset, queue.max_offset, queue.end_position, [path.read_bytes() for path in files(queue)])
            for queue in self.queues
        ]

    def close(self) -> None:
        for queue in self.queues:
            queue.flush()
            assert not queue.is_dirty
            queue.close()


def files(queue: ConsumeQueue) -> list[Path]:
    return sorted(queue.folder.iterdir()) if queue.folder.is_dir() else []


def some_items(random: Random, next_offsets: list[int], position: int, count: int) -> list[Placed]:
    """Records in the order of the log; now and then with a gap before their offset, or marked."""
    items = []
    for _ in range(count):
        queue, size = random.randrange(QUEUES), random.randrange(100, 2000)
        marked = random.random() < 0.05
        if not marked and random.random() < 0.02:
            next_offsets[queue] += random.randrange(1, 5)
        code = random.choice([0, random.randrange(-(2**31), 2**31)])
        flag = SysFlag.PREPARED if marked else 0
        items.append(Placed("orders", queue, next_offsets[queue], position, size, code, 0, flag, b""))
        next_offsets[queue] += not marked
        position += size
    return items


@pytest.mark.parametrize("seed", range(20))
def test_queues_are_the_same_whoever_writes_their_entries(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    compiled, plain = Twin(tmp_path / "kernel", with_kernel=True), Twin(tmp_path / "plain", with_kernel=False)
    next_offsets, position = [random.choice([0, 0, 7])] * QUEUES, 0
    for _ in range(random.randrange(1, 12)):
        items = some_items(random, next_offsets, position, random.randrange(1, 120))
        position = items[-1].position + items[-1].size
        for twin in (compiled, plain):
            twin.put(items)
        again = items[random.randrange(len(items)) :]  # as after a full disk: what is there is passed over
        for twin in (compiled, plain):
            twin.put(again)
        if random.random() < 0.3:
            cut = random.choice(items).position
            for twin in (compiled, plain):
                for queue in twin.queues:
                    queue.cut(cut)
            next_offsets = [queue.max_offset for queue in plain.queues]
        assert compiled.state() == plain.state()
    for twin in (compiled, plain):
        twin.close()
    assert seed or compiled.by_kernel > 10


def test_what_a_crash_left_behind_the_end_is_left_to_plain_code(tmp_path: Path) -> None:
    twin = Twin(tmp_path, with_kernel=True)
    items = [Placed("orders", 0, offset, offset * 200, 200, 5, 0, 0, b"") for offset in range(20)]
    twin.put(items[:10])
    twin.queues[0]._entries._files.files[-1].write_at(11 * QUEUE_ENTRY_SIZE, b"\x7f" * QUEUE_ENTRY_SIZE)
    twin.put(items[10:11])
    twin.close()
    again = ConsumeQueue(tmp_path / "0", "orders", 0, file_size=FILE_SIZE)
    again.load()
    assert again.max_offset == 11
    again.close()


def test_a_queue_that_is_closed_or_extended_offers_nothing(tmp_path: Path) -> None:
    twin = Twin(tmp_path, with_kernel=True)
    twin.put([Placed("orders", 0, 0, 0, 200, 5, 0, 0, b"")])
    row = twin.table.view(b"orders", 0)
    assert row[column.QUEUE_LIMIT] > 1
    twin.close()
    assert row[column.QUEUE_LIMIT] == 0


@pytest.mark.parametrize("place", [-1, 2**40, -(2**63)])
def test_a_place_outside_of_the_table_is_not_looked_at(place: int) -> None:
    table = QueueTable()
    records = np.zeros((1, column.RECORD_WIDTH), np.int64)
    codes, places = np.zeros(1, np.int64), np.array([place], np.int64)
    assert enter_entries(records, codes, places, table.address, len(table.numbers), 0) == 0
