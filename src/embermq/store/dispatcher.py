"""Follows the log, in order and in batches, and fills queues, index and listeners.

    log      ├──────────────┬───────────────┬────────────────┤
             0          dispatched       visible          written

What was just appended is known already and waits here as a chunk until it is visible;
after recovery, or when too much waits, records are decoded from the log itself. Both
ways give the same items, and whatever was done twice is recognised by queues and index.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from embermq.errors import CorruptRecord
from embermq.kernels.switching import Switch
from embermq.log.commit_log import CommitLog
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.dispatching import iter_placed, light_copies
from embermq.log.key_index import KeyIndex
from embermq.log.placed import Batch, Placed
from embermq.model.flags import NOT_QUEUED
from embermq.model.properties import INNER_MULTI_DISPATCH
from embermq.store.queues import QueueStore

log = logging.getLogger(__name__)

Listener = Callable[[Sequence[Placed]], None]
BitsOf = Callable[[str, bytes], bytes]  # topic and properties of a message to its filter bits
RECORDS_PER_SLICE = 4096
RECORDS_FOR_PLAIN_CODE = 64
KERNELS_PAY_AFTER = 32 * 1024 * 1024  # bytes of the log, which take plain code as long as kernels to be loaded
MOST_WAITING = 65_536  # items; beyond it the oldest are forgotten and read from the log instead
_MULTI_DISPATCH = INNER_MULTI_DISPATCH.encode()


class _Chunk(NamedTuple):
    begin: int
    end: int
    items: Sequence[Placed]


class Dispatcher:
    """Makes what is in the log visible to readers. Used by the one writer thread."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: QueueStore,
        index: KeyIndex | None,
        *,
        delay_levels: Sequence[int],
        light_queues: bool,
        position: int,
    ) -> None:
        self._position = position
        self._publish: Callable[[int], None] | None = None
        self.last_store_time = 0
        self.listeners: list[Listener] = []
        self.wants_topic: Callable[[str], bool] | None = None  # while recovery fills queues; None: every topic
        self.bits_of: BitsOf | None = None
        self.queues = queues
        self.index = index
        self._commit_log = commit_log
        self._delay_levels = delay_levels
        self._light_queues = light_queues
        self._waiting: deque[_Chunk] = deque()
        self._waiting_count = 0
        self._kernels = Switch(pays_after=KERNELS_PAY_AFTER)
        self._began = position

    @property
    def position(self) -> int:
        """Everything before it is in queues and index."""
        return self._position

    @position.setter
    def position(self, position: int) -> None:
        self._position = position
        if self._publish is not None:
            self._publish(position)

    def publish_to(self, publish: Callable[[int], None]) -> None:
        """Have `publish` called with every position from now on."""
        self._publish = publish
        publish(self._position)

    def expect(self, begin: int, end: int, items: Sequence[Placed]) -> None:
        """These records were just appended; they need not be decoded again."""
        self._waiting.append(_Chunk(begin, end, items))
        self._waiting_count += len(items)
        while self._waiting_count > MOST_WAITING:
            self._waiting_count -= len(self._waiting.popleft().items)

    @property
    def is_waiting(self) -> bool:
        """Whether something that was appended is not dispatched yet."""
        return bool(self._waiting)

    def passed(self, end: int, batch: Batch) -> None:
        """Queues and index have these records already: tell whoever listens."""
        self.position = end
        self.last_store_time = batch.store_time
        for listener in self.listeners:
            listener(batch)

    def dispatch(self, visible: int) -> None:
        """Dispatch everything before log position `visible`."""
        while self.position < visible:
            while self._waiting and self._waiting[0].begin < self.position:
                self._waiting_count -= len(self._waiting.popleft().items)
            if self._waiting and self._waiting[0].begin == self.position:
                if self._waiting[0].end > visible:
                    return
                # Removed only when done: a full disk may stop it half-way, and it is tried again.
                self._hand_on(self._waiting[0].items)
                chunk = self._waiting.popleft()
                self._waiting_count -= len(chunk.items)
                self.position = chunk.end
            elif not self.dispatch_slice(visible):
                return

    def dispatch_slice(self, visible: int) -> bool:
        """Decode and dispatch the next few thousand records; False when there was none."""
        begin = self._commit_log.chain.begin
        if self.position < begin:  # retention was faster
            log.error("records expired before they were dispatched begin=%d end=%d", self.position, begin)
            self.position = begin
        data = self._commit_log.chain.select_rest(self.position)
        if data is None:
            return False
        data = data[: visible - self.position]
        items = self._read(data)
        if items:
            self._hand_on(items)
            last = items[-1]
            self.position = last.position + last.size
            return True
        next_file = self._commit_log.next_file_start(self.position)
        if next_file > visible:
            if any(data):
                raise CorruptRecord(self.position, "no record where the log goes on")
            return False
        self.position = next_file
        return True

    def _read(self, data: memoryview) -> Sequence[Placed]:
        """The next few thousand records, which `data` begins with."""
        most = RECORDS_PER_SLICE
        if self._kernels.is_on(self.position - self._began):
            from embermq.log.record_batch import scan_batch

            batch = scan_batch(data, self.position, most)
            if batch is not None:
                return batch
            most = RECORDS_FOR_PLAIN_CODE  # kernels go on behind what they do not know
        return list(islice(iter_placed(data, self.position, self._delay_levels), most))

    def _hand_on(self, items: Sequence[Placed]) -> None:
        told = items
        with self.queues.open_chains.lock:
            is_put = isinstance(items, Batch) and self._put_runs(items)
        if not is_put:
            told = self._with_light_copies(items)
            self._put(told)
        if self.index is not None:
            self.index.put(items)
        self.last_store_time = items.store_time if isinstance(items, Batch) else items[-1].store_time
        for listener in self.listeners:
            listener(told)

    def _with_light_copies(self, items: Sequence[Placed]) -> Sequence[Placed]:
        """`items`, and those that name light queues once more for each of these."""
        if not self._light_queues or isinstance(items, Batch):
            return items
        named = [item for item in items if _MULTI_DISPATCH in item.properties and not item.sys_flag & NOT_QUEUED]
        return [*items, *(copy for item in named for copy in light_copies(item))] if named else items

    def _put_runs(self, batch: Batch) -> bool:
        """Give every queue its entries in one piece; False, with nothing done, if a queue cannot take them so."""
        if self.queues.table is not None and batch.enter(self.queues.table, lambda item: self._put((item,))):
            return True
        pieces = []
        for run in batch.runs():
            topic = run.topic.decode()
            if self.wants_topic is not None and not self.wants_topic(topic):
                continue
            queue = self.queues.find(topic, run.queue)
            if not isinstance(queue, ConsumeQueue) or not queue.takes_run(run.offset):
                return False
            pieces.append((queue, run))
        for queue, run in pieces:
            queue.put_run(run)
        return True

    def _put(self, items: Sequence[Placed]) -> None:
        queued = [item for item in items if not item.sys_flag & NOT_QUEUED]
        if self.bits_of is not None:
            bits_of = self.bits_of
            queued = [item._replace(filter_bits=bits_of(item.topic, item.properties)) for item in queued]
        wants_topic = self.wants_topic
        self.queues.put(queued if wants_topic is None else [item for item in queued if wants_topic(item.topic)])
