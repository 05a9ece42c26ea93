"""Staged messages: as they travel to a broker, and as it keeps them until they are published.

    a message on the wire    queue 4   flag 4   sys flag 4   born time 8   body size 4   properties size 2
                             body   properties
    a message in a file      the same, topic size 2   born host size 1, then body   properties   topic   born host
    a chunk of a file        magic 4   sequence 4   count 4   size 4   crc 4, then so many messages of that size

The crc is that of the chunk's other numbers and its messages. Sizes are checked before anything of that size is read.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord, IllegalMessage
from embermq.format.record import DraftFields
from embermq.model.properties import REAL_TOPIC, find_property
from embermq.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC

CHUNK_MAGIC: Final = 0xE3BE57A6
CHUNK_HEAD: Final = struct.Struct(">IIIII")
MAX_CHUNK_SIZE: Final = 64 * 1024 * 1024  # in a file, where each message has its topic and host
_NUMBERS: Final = struct.Struct(">IIII")
STAGED_HEAD: Final = [
    ("queue", ">i4"), ("flag", ">i4"), ("sys_flag", ">i4"), ("born_time", ">i8"), ("body_size", ">i4"),
    ("properties_size", ">i2"),
]  # what stands before the parts of a message on the wire, for numpy  # fmt: skip
_MESSAGE: Final = struct.Struct(">iiiqih")
_DRAFT: Final = struct.Struct(">iiiqihHB")
_WAITING: Final = frozenset({SCHEDULE_TOPIC.encode(), TIMER_TOPIC.encode()})
_REAL_TOPIC: Final = REAL_TOPIC.encode()


class StagedMessage(NamedTuple):
    """A message as it is staged; its topic is that of the request."""

    queue: int
    flag: int
    sys_flag: int
    born_time: int
    body: bytes
    properties: bytes


class KeptChunk(NamedTuple):
    """The messages of a chunk as a file keeps them."""

    data: bytes | memoryview
    messages: int
    topics: frozenset[bytes]  # where they go in the end


class Chunk(NamedTuple):
    """Where a chunk lies in its file, and what it holds."""

    sequence: int
    messages: int
    size: int  # of its messages
    crc: int


def encode_staged(messages: Iterable[StagedMessage]) -> bytes:
    """The body of a request that stages. Raises IllegalMessage if a message does not fit."""
    parts: list[bytes] = []
    try:
        for queue, flag, sys_flag, born_time, body, properties in messages:
            parts += _MESSAGE.pack(queue, flag, sys_flag, born_time, len(body), len(properties)), body, properties
    except struct.error as error:
        raise IllegalMessage(f"no message can be staged like this: {error}") from error
    return b"".join(parts)


def iter_staged(data: bytes) -> Iterator[StagedMessage]:
    """The messages of a request that stages. Raises CorruptRecord with the byte where the broken one begins."""
    at, end = 0, len(data)
    while at < end:
        if end - at < _MESSAGE.size:
            raise CorruptRecord(at, f"{end - at} bytes left, a staged message begins with {_MESSAGE.size}")
        queue, flag, sys_flag, born_time, body_size, properties_size = _MESSAGE.unpack_from(data, at)
        body = at + _MESSAGE.size
        if body_size < 0 or properties_size < 0 or body_size + properties_size > end - body:
            raise CorruptRecord(at, f"sizes {body_size} and {properties_size} with {end - body} bytes left")
        split = body + body_size
        after = split + properties_size
        yield StagedMessage(queue, flag, sys_flag, born_time, data[body:split], data[split:after])
        at = after


def encode_drafts_aside(drafts: Iterable[DraftFields]) -> bytes:
    """Drafts as the file of a task keeps them."""
    parts: list[bytes] = []
    for topic, queue, body, properties, flag, sys_flag, born_time, host, _, _ in drafts:
        head = queue, flag, sys_flag, born_time, len(body), len(properties), len(topic), len(host)
        parts += _DRAFT.pack(*head), body, properties, topic, host
    return b"".join(parts)


def keep_drafts(drafts: Sequence[DraftFields]) -> KeptChunk:
    """Drafts as a chunk that can be kept."""
    return KeptChunk(encode_drafts_aside(drafts), len(drafts), frozenset(map(_topic_of, drafts)))


def read_shared(data: bytes | memoryview) -> tuple[bytes, bytes]:
    """Topic and born host of the first message that a file kept. Raises CorruptRecord."""
    if len(data) < _DRAFT.size:
        raise CorruptRecord(0, f"{len(data)} bytes left, a staged draft begins with {_DRAFT.size}")
    *_, body_size, properties_size, topic_size, host_size = _DRAFT.unpack_from(data)
    topic = _DRAFT.size + body_size + properties_size
    host = topic + topic_size
    if min(body_size, properties_size) < 0 or host + host_size > len(data):
        raise CorruptRecord(0, f"parts that end at {host + host_size} of {len(data)} bytes")
    return bytes(data[topic:host]), bytes(data[host : host + host_size])


def decode_drafts_aside(data: bytes) -> list[DraftFields]:
    """What `encode_drafts_aside` was given. Raises CorruptRecord."""
    drafts: list[DraftFields] = []
    at, end = 0, len(data)
    while at < end:
        if end - at < _DRAFT.size:
            raise CorruptRecord(at, f"{end - at} bytes left, a staged draft begins with {_DRAFT.size}")
        queue, flag, sys_flag, born_time, *sizes = _DRAFT.unpack_from(data, at)
        parts: list[bytes] = []
        at += _DRAFT.size
        for size in sizes:
            if not 0 <= size <= end - at:
                raise CorruptRecord(at, f"a part of {size} bytes with {end - at} left")
            parts.append(data[at : at + size])
            at += size
        body, properties, topic, host = parts
        drafts.append((topic, queue, body, properties, flag, sys_flag, born_time, host, 0, 0))
    return drafts


def _topic_of(draft: DraftFields) -> bytes:
    """Where a message goes in the end: one with a delay waits elsewhere."""
    topic = draft[0]
    return find_property(draft[3], _REAL_TOPIC) or topic if topic in _WAITING else topic


def make_chunk(sequence: int, count: int, data: bytes | memoryview) -> Chunk:
    """The numbers of a chunk that holds `data`."""
    return Chunk(sequence, count, len(data), zlib.crc32(data, zlib.crc32(_numbers(sequence, count, len(data)))))


def encode_chunk_head(chunk: Chunk) -> bytes:
    return CHUNK_HEAD.pack(CHUNK_MAGIC, *chunk)


def decode_chunk_head(data: bytes, at: int) -> Chunk:
    """The numbers of the chunk at byte `at` of its file, from its head. Raises CorruptRecord."""
    if len(data) < CHUNK_HEAD.size:
        raise CorruptRecord(at, f"{len(data)} bytes left, a chunk begins with {CHUNK_HEAD.size}")
    magic, *numbers = CHUNK_HEAD.unpack_from(data)
    chunk = Chunk._make(numbers)
    if magic != CHUNK_MAGIC or chunk.size > MAX_CHUNK_SIZE:
        raise CorruptRecord(at, f"no chunk begins with magic {magic:#010x} and size {chunk.size}")
    return chunk


def check_chunk(chunk: Chunk, data: bytes | memoryview, at: int) -> None:
    """Raise CorruptRecord unless `data` is what the chunk at byte `at` of its file held."""
    if make_chunk(chunk.sequence, chunk.messages, data) != chunk:
        raise CorruptRecord(at, f"chunk {chunk.sequence} does not match its checksum")


def decode_chunk(chunk: Chunk, data: bytes | memoryview) -> list[DraftFields]:
    """The drafts of a chunk. Raises CorruptRecord."""
    drafts = decode_drafts_aside(bytes(data))
    if len(drafts) != chunk.messages:
        raise CorruptRecord(0, f"chunk {chunk.sequence} of {chunk.messages} messages holds {len(drafts)}")
    return drafts


def _numbers(sequence: int, count: int, size: int) -> bytes:
    return _NUMBERS.pack(CHUNK_MAGIC, sequence, count, size)
