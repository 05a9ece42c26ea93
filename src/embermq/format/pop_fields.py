"""The texts that pops and acks are told by in the fields of requests and answers.

    POP_CK            so pt it reviveQid r broker queue offset        one message, eight words
    startOffsetInfo   r queue so;r queue so;…                         where each queue was begun
    msgOffsetInfo     r queue offset,offset;…                         what was found there
    orderCountInfo    r queue n;r qo<queue>%<offset> n;…              how often it was delivered before, in order

`r` is 0 for the topic itself, 1 and 2 for its retry topics.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord, IllegalField
from embermq.format.json_fields import Fields, parse_fields
from embermq.model.pop import Handle

_LONGEST_HANDLE: Final = 1024
_MOST_DIGITS: Final = 18
_LEAST_WORDS: Final = 6  # older clients leave out the last two
MOST_BITS: Final = 4096  # of one batch of acks


class PoppedQueue(NamedTuple):
    """What a pop found in one queue."""

    kind: int
    queue: int
    start: int
    offsets: Sequence[int]


class BatchAck(NamedTuple):
    """One element of a batch of acks: messages of one checkpoint."""

    group: str
    topic: str  # the one that was subscribed to
    kind: int
    queue: int
    handle: Handle
    offsets: tuple[int, ...]


def parse_handle(text: str) -> Handle:
    """The handle that a client shows. Raises IllegalField."""
    words = text.split(" ") if len(text) <= _LONGEST_HANDLE else []
    if len(words) < _LEAST_WORDS:
        raise _illegal(text, f"{len(words)} words, at least {_LEAST_WORDS} wanted")
    start, pop_time, invisible_ms, revive_queue = (_read_number(text, word) for word in words[:4])
    broker = words[5]
    if not broker or not broker.isprintable():
        raise _illegal(text, "it names no broker")
    return Handle(start, pop_time, invisible_ms, revive_queue, broker)


def format_handle(handle: Handle, kind: int, queue: int, offset: int) -> str:
    start, pop_time, invisible_ms, revive_queue, broker = handle
    return f"{start} {pop_time} {invisible_ms} {revive_queue} {kind} {broker} {queue} {offset}"


def format_starts(queues: Iterable[PoppedQueue]) -> str:
    return ";".join([f"{kind} {queue} {start}" for kind, queue, start, _ in queues])


def format_offsets(queues: Iterable[PoppedQueue]) -> str:
    return ";".join([f"{kind} {queue} {','.join(map(str, offsets))}" for kind, queue, _, offsets in queues])


def format_order_counts(kind: int, queue: int, counts: Iterable[tuple[int, int]], least: int) -> str:
    """How often the messages of one queue were delivered before; `least` is that of the one that was so least."""
    return ";".join([*(f"{kind} qo{queue}%{offset} {count}" for offset, count in counts), f"{kind} {queue} {least}"])


def decode_batch_acks(body: bytes) -> list[BatchAck]:
    """The body of BATCH_ACK_MESSAGE. Raises CorruptRecord."""
    fields = parse_fields(body, "acks")
    broker = fields.text("brokerName", "")
    return [_read_batch_ack(Fields(each, "acks"), broker) for each in fields.find_list("acks") or []]


def _read_batch_ack(fields: Fields, broker: str) -> BatchAck:
    group, topic = fields.text("c", ""), fields.text("t", "")
    if not group or not topic or not broker.isprintable():
        raise CorruptRecord(0, "acks: a group, a topic and a broker's name are wanted")
    start = fields.integer("so")
    handle = Handle(start, fields.integer("pt"), fields.integer("it"), fields.integer("rq"), broker)
    kind = fields.integer("r")
    if kind not in (0, 1, 2):
        raise CorruptRecord(0, f"acks.r: 0, 1 or 2 expected, found {kind}")
    bits = _read_bits(fields.members.get("b"))
    return BatchAck(group, topic, kind, fields.integer("q"), handle, tuple(start + bit for bit in bits))


def _read_bits(value: object) -> list[int]:
    """The numbers of the bits that are set; the lowest bit of the first byte is number 0."""
    if not isinstance(value, str) or len(value) > MOST_BITS // 4:
        raise CorruptRecord(0, f"acks.b: the base64 of at most {MOST_BITS // 8} bytes expected")
    try:
        data = base64.b64decode(value, validate=True)
    except ValueError as error:
        raise CorruptRecord(0, f"acks.b: {error}") from error
    return [at * 8 + bit for at, byte in enumerate(data) for bit in range(8) if byte >> bit & 1]


def _read_number(text: str, word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS):
        raise _illegal(text, f"{word[:40]!r} is no number")
    return int(word)


def _illegal(text: str, reason: str) -> IllegalField:
    return IllegalField(
        "extraInfo", f"{text[:200]!r} is no handle of a popped message: {reason}; send POP_CK as it came"
    )
