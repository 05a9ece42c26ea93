"""A consume queue against a plain list: random puts, cuts, deletions and reloads in any order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from embermq.format.queue_entry import ENTRY, QUEUE_ENTRY_SIZE, QueueEntry
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.placed import Placed
from tests.builders import a_placed
from tests.unit.log.queue_builders import BLANK

PER_FILE = 4
IN_MEMORY = Path("/dev/shm")  # syncs cost nothing there
some = st.integers(0, 9)
gaps = st.sampled_from([0, 0, 0, 1, PER_FILE, 2 * PER_FILE + 1])


class QueueModel(RuleBasedStateMachine):
    """`entries[0]` has the offset `begin`; everything else follows from that."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None)) / "queue"
        self.begin = 0
        self.entries: list[QueueEntry] = []
        self.min = 0
        self.log_end = 0
        self.log_begin = 0
        self.queue = self.open()

    def open(self) -> ConsumeQueue:
        queue = ConsumeQueue(self.folder, "orders", 0, file_size=PER_FILE * QUEUE_ENTRY_SIZE)
        queue.load()
        return queue

    def teardown(self) -> None:
        self.queue.close()
        shutil.rmtree(self.folder.parent)

    @property
    def end(self) -> int:
        return self.begin + len(self.entries)

    @property
    def records(self) -> list[QueueEntry]:
        return [entry for entry in self.entries if entry != BLANK]

    def position_before(self, offset: int) -> int | None:
        """Where the record at `offset` lies or, for a blank entry, the nearest before it."""
        known = [entry for entry in self.entries[: offset - self.begin + 1] if entry != BLANK]
        return known[-1].position if known else None

    def first_from(self, position: int, begin: int) -> int:
        for offset in range(begin, self.end):
            found = self.position_before(offset)
            if found is not None and found >= position:
                return offset
        return self.end

    def new_items(self, begin: int, count: int, size: int) -> list[Placed]:
        items = []
        for offset in range(begin, begin + count):
            items.append(a_placed(offset, self.log_end, size=size, tags_code=offset * size))
            self.log_end += size
        return items

    def expect(self, items: list[Placed]) -> None:
        first = items[0].offset
        if self.min == self.end:
            self.min = first
        if not self.entries and self.begin == 0:
            self.begin = first - first % PER_FILE
        self.entries += [BLANK] * (first - self.end)
        self.entries += [QueueEntry(item.position, item.size, item.tags_code) for item in items]

    @initialize(first=st.sampled_from([0, 1, PER_FILE - 1, PER_FILE, 4 * PER_FILE + 1]), log_end=some)
    def put_first(self, first: int, log_end: int) -> None:
        self.log_end = log_end
        items = self.new_items(first, 1, 10)
        self.queue.put(items)
        self.expect(items)

    @rule(gap=gaps, count=st.integers(1, 9), size=st.integers(1, 30))
    def put(self, gap: int, count: int, size: int) -> None:
        items = self.new_items(self.end + gap, count, size)
        self.queue.put(items)
        self.expect(items)

    @rule(count=st.integers(1, 9))
    def put_known_ones_again_and_a_new_one(self, count: int) -> None:
        known = [
            a_placed(self.begin + index, entry.position, size=entry.size, tags_code=entry.tags_code)
            for index, entry in enumerate(self.entries)
            if entry != BLANK
        ][-count:]
        items = self.new_items(self.end, 1, 5)
        self.queue.put(known + items)
        self.expect(items)

    @precondition(lambda self: self.records)
    @rule(back=some)
    def put_what_differs(self, back: int) -> None:
        offset = max(self.begin, self.end - 1 - back)
        items = self.new_items(offset, 2, 7)
        self.queue.put(items)
        if offset == 0 or self.entries[offset - self.begin] == BLANK:
            self.forget(offset)
            self.expect(items)
        elif offset + 1 == self.end:  # an earlier record has the offset of the first, so that one is damaged
            self.expect(items[1:])

    def forget(self, offset: int) -> None:
        del self.entries[offset - self.begin :]
        self.min = min(self.min, self.end)

    @precondition(lambda self: self.records)
    @rule(back=some, inside=st.sampled_from([-1, 0, 1]))
    def cut(self, back: int, inside: int) -> None:
        position = max(0, self.records[max(0, len(self.records) - 1 - back)].position + inside)
        self.queue.cut(position)
        self.forget(self.first_from(position, self.begin))

    @precondition(lambda self: self.records)
    @rule(index=some, inside=st.sampled_from([-1, 0, 1]), delete=st.booleans())
    def lose_the_beginning_of_the_log(self, index: int, inside: int, delete: bool) -> None:
        position = self.records[min(index, len(self.records) - 1)].position + inside
        self.log_begin = max(self.log_begin, position)
        self.min = max(self.min, self.first_from(self.log_begin, self.min))
        if not delete:
            self.queue.correct_min(self.log_begin)
            return
        gone = 0
        while len(self.entries) > PER_FILE:
            last = self.position_before(self.begin + PER_FILE - 1)
            if last is not None and last >= self.log_begin:
                break
            del self.entries[:PER_FILE]
            self.begin += PER_FILE
            gone += 1
        assert self.queue.delete_before(self.log_begin) == gone

    @rule()
    def reload(self) -> None:
        self.queue.close()
        self.queue = self.open()
        self.queue.correct_min(self.log_begin)
        first = next((index for index, entry in enumerate(self.entries) if entry != BLANK), len(self.entries))
        self.min = self.first_from(self.log_begin, self.begin + first)

    @rule()
    def flush(self) -> None:
        self.queue.flush()
        assert not self.queue.is_dirty

    @invariant()
    def bounds_are_those_of_the_list(self) -> None:
        assert (self.queue.min_offset, self.queue.max_offset) == (self.min, self.end)
        last = self.records[-1] if self.records else None
        assert self.queue.last_entry() == last
        assert self.queue.end_position == (last.position + last.size if last else 0)

    @invariant()
    def entries_are_those_of_the_list(self) -> None:
        assert self.queue.read(self.min, self.end) == self.entries[self.min - self.begin :]

    @invariant()
    def the_files_hold_the_list_and_zeros_behind_it(self) -> None:
        files = sorted(self.folder.iterdir()) if self.folder.exists() else []
        data = b"".join(path.read_bytes() for path in files)
        stored = b"".join(ENTRY.pack(*entry) for entry in self.entries)
        assert data[: len(stored)] == stored
        assert data[len(stored) :].strip(b"\0") == b""
        # Without entries, a file stays to tell the next offset, unless that is zero.
        assert len(files) == (-(-len(self.entries) // PER_FILE) or min(self.begin, 1))
        assert not files or int(files[0].name) == self.begin * QUEUE_ENTRY_SIZE


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(stateful_step_count=30)
