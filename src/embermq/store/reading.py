"""Reading a queue: from an offset on, until something is enough.

The outcomes and the next offsets are RocketMQ's, so that a broker can hand them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from embermq.errors import CorruptRecord
from embermq.files.file_chain import FileChain
from embermq.format.batch_entry import BatchEntry
from embermq.format.extended_entry import ExtendedEntry
from embermq.format.host import decode_host
from embermq.format.message_id import encode_message_id
from embermq.format.queue_entry import QueueEntry
from embermq.format.record import Record
from embermq.log.commit_log import CommitLog
from embermq.log.consume_queue import ConsumeQueue
from embermq.model.message import StoredMessage
from embermq.model.properties import KEYS, TAGS, parse_properties
from embermq.model.topic import is_light_queue
from embermq.store.queues import AnyQueue

Accept = Callable[[int], bool]  # a tags code: may the message be wanted?


class Wanted(Protocol):
    """A filter that has to look at messages."""

    def may_accept(self, extended: ExtendedEntry | None) -> bool:
        """Whether what the queue knows of a message, if it does, leaves it possible that it is wanted."""
        ...

    def accepts(self, data: memoryview) -> bool:
        """Whether the message of a record is wanted."""
        ...


LARGEST_SCAN = 16_000  # bytes of entries looked at for one answer, when a filter rejects


class ReadStatus(StrEnum):
    """How a read ended."""

    FOUND = "found"
    NO_MATCH = "no message matched"
    REMOVED = "the messages are no longer in the log"
    NO_QUEUE = "no such queue"
    EMPTY = "no message in the queue"
    TOO_SMALL = "offset below the first"
    AT_END = "offset at the end"
    BEYOND = "offset beyond the end"


@dataclass(frozen=True, slots=True)
class Found:
    """Records as they lie in the log, and where to go on."""

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: Sequence[tuple[int, int, memoryview]] = ()  # offset, position, bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one queue, and where to go on."""

    messages: Sequence[StoredMessage]
    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, index: int) -> StoredMessage:
        return self.messages[index]


def read_queue(
    queue: AnyQueue | None,
    commit_log: CommitLog,
    offset: int,
    *,
    limit: int,
    max_bytes: int,
    accept: Accept | None = None,
    wanted: Wanted | None = None,
) -> Found:
    """Records of `queue` from `offset` on: at most `limit` messages and `max_bytes`, but one at least."""
    if queue is None:
        return Found(ReadStatus.NO_QUEUE, 0, 0, 0)
    low, high = queue.min_offset, queue.max_offset
    outside = _outside(offset, low, high)
    if outside is not None:
        return outside
    is_filtered = accept is not None or wanted is not None
    if not is_filtered and isinstance(queue, ConsumeQueue):
        plain = _read_plain(queue, commit_log.chain, offset, limit=limit, max_bytes=max_bytes)
        if plain:
            _note_read(commit_log, plain)
            return Found(ReadStatus.FOUND, plain[-1][0] + 1, low, high, plain)
    records: list[tuple[int, int, memoryview]] = []
    status, next_offset, count, size = ReadStatus.NO_MATCH, offset, 0, 0
    for at, number, entry in _entries(queue, offset, limit, filtered=is_filtered):
        if records and (count + number > limit or size + entry.size > max_bytes):
            break
        next_offset = at + number
        if accept is not None and not accept(entry.tags_code):
            continue
        if wanted is not None and isinstance(queue, ConsumeQueue) and not wanted.may_accept(queue.read_extended(at)):
            continue
        data = commit_log.chain.select(entry.position, entry.size)
        if data is None:
            if records and not _is_gone(entry, commit_log):
                return Found(status, at, low, high, records)  # the next read will say what is wrong with it
            _check_gone(entry, commit_log, at)
            status = status if records else ReadStatus.REMOVED
            continue
        if wanted is not None and not wanted.accepts(data):
            continue
        records.append((at, entry.position, data))
        count, size, status = count + number, size + entry.size, ReadStatus.FOUND
    _note_read(commit_log, records)
    if next_offset == offset:
        raise CorruptRecord(offset, f"entry {offset} of the queue is damaged; `ember store verify` tells which")
    return Found(status, next_offset, low, high, records)


def _note_read(commit_log: CommitLog, records: Sequence[tuple[int, int, memoryview]]) -> None:
    """Somebody reads there, and is likely to go on."""
    if records:
        commit_log.chain.readers.note(records[0][1])


def _read_plain(
    queue: ConsumeQueue, chain: FileChain, offset: int, *, limit: int, max_bytes: int
) -> list[tuple[int, int, memoryview]]:
    """The same where nothing is unusual: every record is there. Otherwise nothing, or what comes before it."""
    records: list[tuple[int, int, memoryview]] = []
    view, begin, end, left = memoryview(b""), 0, 0, max_bytes
    for at, (position, size, _) in enumerate(queue.read(offset, limit), start=offset):
        if size > left and records:
            break
        if not begin <= position < end:
            file = chain.find(position)
            if file is None:
                break
            view, begin, end = file.view, file.start, file.start + file.committed
        part = view[position - begin : position - begin + size]
        if len(part) != size or position + size > end or size <= 0:
            break
        records.append((at, position, part))
        left -= size
    return records


def _is_gone(entry: QueueEntry | BatchEntry, commit_log: CommitLog) -> bool:
    """Whether the record of an entry has expired, or there never was one."""
    return entry.position < commit_log.chain.begin or (isinstance(entry, QueueEntry) and entry.is_blank)


def _check_gone(entry: QueueEntry | BatchEntry, commit_log: CommitLog, offset: int) -> None:
    if not _is_gone(entry, commit_log):
        raise CorruptRecord(entry.position, f"entry {offset} of the queue leads there, where no record of its size is")


def _outside(offset: int, low: int, high: int) -> Found | None:
    if high == 0:
        return Found(ReadStatus.EMPTY, 0, low, high)
    if offset < low:
        return Found(ReadStatus.TOO_SMALL, low, low, high)
    if offset == high:
        return Found(ReadStatus.AT_END, offset, low, high)
    if offset > high:
        return Found(ReadStatus.BEYOND, high, low, high)
    return None


def _entries(
    queue: AnyQueue, offset: int, limit: int, *, filtered: bool
) -> Iterator[tuple[int, int, QueueEntry | BatchEntry]]:
    """The entries from `offset` on, each with its first offset and how many offsets it takes."""
    at = offset
    for entry in queue.read(offset, max(limit, LARGEST_SCAN // 20) if filtered else limit):
        if isinstance(entry, BatchEntry):
            yield entry.base_offset, entry.count, entry
        else:
            yield at, 1, entry
            at += 1


def to_message(record: Record) -> StoredMessage:
    """A record as the user sees it."""
    try:
        properties = parse_properties(record.properties)
    except ValueError as error:
        raise CorruptRecord(record.position, f"its properties cannot be read: {error}") from error
    return StoredMessage(
        topic=record.topic,
        queue=record.queue,
        offset=record.offset,
        position=record.position,
        size=record.size,
        body=record.body,
        tags=properties.pop(TAGS, None),
        keys=tuple(key for key in properties.pop(KEYS, "").split(" ") if key),
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_time_ms=record.born_time,
        born_host=decode_host(record.born_host),
        store_time_ms=record.store_time,
        store_host=decode_host(record.store_host),
        reconsume_times=record.reconsume_times,
        message_id=encode_message_id(record.store_host, record.position),
    )


def to_batch(found: Found, commit_log: CommitLog, *, topic: str, queue: int) -> Batch:
    """Decode what was found; every record is checked whole, and that it is the one asked for. Raises CorruptRecord."""
    messages = []
    for offset, position, data in found.records:
        message = to_message(commit_log.decode(data, position))
        if is_light_queue(topic):
            message = message._replace(offset=offset)
        elif (message.topic, message.queue, message.offset) != (topic, queue, offset):
            place = f"{message.topic}/{message.queue} offset {message.offset}"
            raise CorruptRecord(position, f"{place} lies there, {topic}/{queue} offset {offset} was asked for")
        messages.append(message)
    return Batch(messages, found.status, found.next_offset, found.min_offset, found.max_offset)
