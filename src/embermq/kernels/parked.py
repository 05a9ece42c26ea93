"""Drafts of messages that wait: in the timer's topic for their time, in the half topic for the end of a transaction.

    properties │ TIMER_OUT_MS …     │ REAL_TOPIC … │ REAL_QID …        behind all of it comes what every message gets
    properties │ __transactionId__ … │ REAL_TOPIC … │ REAL_QID …

A sender is told a handle with which it can take a message back from the timer (format/recall_handle.py):
URL-safe base64 of `v1 <topic> <broker> <time> <unique key>`.
"""

from __future__ import annotations

from typing import Final

from embermq.kernels.columns import DRAFT_PROPERTIES_AT, DRAFT_PROPERTIES_SIZE, DRAFT_QUEUE, DRAFT_TOPIC
from embermq.kernels.compiling import part, variable
from embermq.kernels.digits import count_digits, write_digits
from embermq.kernels.machine_clock import CLOCK_WIDTH, wall_ms
from embermq.kernels.memory import copy, get, load_u8, put, store_8, store_16, store_32, store_64
from embermq.kernels.send_rows import (
    ASKED,
    ASKED_SIZE,
    ASKS,
    ASKS_COMMIT,
    ASKS_DELAY,
    ASKS_TIME,
    PROPERTIES_SIZE,
    QUEUE,
    TOPIC_SIZE,
    UNIQUE_SIZE,
)
from embermq.kernels.sends import NOT_PLAIN, SCRATCH_FULL

# What the broker says of messages that wait. A number of a topic below 0 leaves those that it is for to plain code.
# NOW is the time where the broker has a clock of its own, as in tests; where it is 0, the machine's is read.
(
    TIMER_NUMBER, HALF_NUMBER, NOW, PRECISION, MOST_DELAY, BROKER, BROKER_SIZE, PROPERTIES_MOST, CHECK_ROOM, _CLOCK,
) = range(10)  # fmt: skip
PARKING_SIZE: Final = _CLOCK + CLOCK_WIDTH

_NAME_ENDS: Final = 1
_ENDS: Final = 2
_OUT: Final = (int.from_bytes(b"TIMER_OU"), int.from_bytes(b"T_MS"))
_ID: Final = (int.from_bytes(b"__transa"), int.from_bytes(b"ctionId_"), int.from_bytes(b"_\x01"))
_TOPIC: Final = (int.from_bytes(b"REAL_TOP"), int.from_bytes(b"IC"))
_QUEUE: Final = int.from_bytes(b"REAL_QID")
_VERSION: Final = (int.from_bytes(b"v1"), int.from_bytes(b" "))
_NAMES_SIZE: Final = 18 + 11 + 9 + 3  # of the longest three, with the ends of their values
_LONGEST_NUMBER: Final = 20


@part
def _write_place(out: int, topic: int, topic_size: int, queue: int) -> int:
    store_64(out, _TOPIC[0])
    store_16(out + 8, _TOPIC[1])
    store_8(out + 10, _NAME_ENDS)
    copy(out + 11, topic, topic_size)
    out += 11 + topic_size
    store_8(out, _ENDS)
    store_64(out + 1, _QUEUE)
    store_8(out + 9, _NAME_ENDS)
    out = write_digits(out + 10, queue, count_digits(queue))
    store_8(out, _ENDS)
    return out + 1


@part
def _write_time(out: int, time: int) -> int:
    store_64(out, _OUT[0])
    store_32(out + 8, _OUT[1])
    store_8(out + 12, _NAME_ENDS)
    out = write_digits(out + 13, time, count_digits(time))
    store_8(out, _ENDS)
    return out + 1


@part
def _write_id(out: int, unique: int, size: int) -> int:
    store_64(out, _ID[0])
    store_64(out + 8, _ID[1])
    store_16(out + 16, _ID[2])
    copy(out + 18, unique, size)
    store_8(out + 18 + size, _ENDS)
    return out + 19 + size


@part
def _letter(value: int) -> int:
    """A digit of URL-safe base64."""
    if value < 26:
        return 0x41 + value
    if value < 52:
        return 0x61 + value - 26
    if value < 62:
        return 0x30 + value - 52
    return 0x2D if value == 62 else 0x5F


@part
def write_base64(out: int, at: int, size: int) -> int:
    """Write `size` bytes as URL-safe base64, with the signs at its end; where that ends."""
    done = variable(0)
    while done < size:
        left = size - done
        first = load_u8(at + done)
        second = load_u8(at + done + 1) if left > 1 else 0
        third = load_u8(at + done + 2) if left > 2 else 0
        store_8(out, _letter(first >> 2))
        store_8(out + 1, _letter((first & 3) << 4 | second >> 4))
        store_8(out + 2, _letter((second & 15) << 2 | third >> 6) if left > 1 else 0x3D)
        store_8(out + 3, _letter(third & 63) if left > 2 else 0x3D)
        out += 4
        done += 3
    return out


@part
def _write_handle(
    out: int, parking: int, topic: int, topic_size: int, time: int, unique: int, unique_size: int
) -> tuple[int, int]:
    """Write a recall handle behind the text that it stands for; where it begins and ends."""
    begin = out
    store_16(out, _VERSION[0])
    store_8(out + 2, _VERSION[1])
    copy(out + 3, topic, topic_size)
    out += 3 + topic_size
    store_8(out, _VERSION[1])
    copy(out + 1, get(parking, BROKER), get(parking, BROKER_SIZE))
    out += 1 + get(parking, BROKER_SIZE)
    store_8(out, _VERSION[1])
    out = write_digits(out + 1, time, count_digits(time))
    store_8(out, _VERSION[1])
    copy(out + 1, unique, unique_size)
    out += 1 + unique_size
    return out, write_base64(out, begin, out - begin)


@part
def _slot_of(parking: int, row: int) -> int:
    """The time of the slot of a message; -1 if it is not for a time that it can wait for."""
    now, precision = get(parking, NOW), get(parking, PRECISION)
    if now == 0:
        now = wall_ms(parking + _CLOCK * 8)
    deliver = get(row, ASKED) + (now if get(row, ASKS) == ASKS_DELAY else 0)
    if deliver <= now or deliver - now > get(parking, MOST_DELAY) or precision <= 0:
        return -1
    return (deliver - 1) // precision * precision


@part
def park_draft(
    draft: int, row: int, parking: int, topic: int, own: int, unique: int, texts: int, used: int, texts_size: int
) -> tuple[int, int]:
    """Have a draft wait: 1 and how far the texts are used, or a reason and a negative number.

    The row's topic, properties and unique id lie at these addresses.
    """
    topic_size, unique_size, own_size = get(row, TOPIC_SIZE), get(row, UNIQUE_SIZE), get(row, PROPERTIES_SIZE)
    is_timed = get(row, ASKS) != ASKS_COMMIT
    number = get(parking, TIMER_NUMBER) if is_timed else get(parking, HALF_NUMBER)
    slot = _slot_of(parking, row) if is_timed else 0
    if number < 0 or slot < 0 or get(row, QUEUE) < 0:
        return NOT_PLAIN, -1
    parts = topic_size + unique_size + _NAMES_SIZE + 2 * _LONGEST_NUMBER
    handle = (parts + get(parking, BROKER_SIZE)) * 3  # text and base64 of it
    if texts_size - used < own_size + parts + handle:
        return SCRATCH_FULL, -1
    begin = texts + used
    copy(begin, own, own_size)
    out = begin + own_size
    out = _write_time(out, slot) if is_timed else _write_id(out, unique, unique_size)
    end = _write_place(out, topic, topic_size, get(row, QUEUE))
    if end - begin > get(parking, PROPERTIES_MOST) - (0 if is_timed else get(parking, CHECK_ROOM)):
        return NOT_PLAIN, -1
    put(draft, DRAFT_TOPIC, number)
    put(draft, DRAFT_QUEUE, 0)
    put(draft, DRAFT_PROPERTIES_AT, used)
    put(draft, DRAFT_PROPERTIES_SIZE, end - begin)
    if is_timed:
        at, end = _write_handle(end, parking, topic, topic_size, slot + 1, unique, unique_size)
        put(row, ASKS, ASKS_TIME)
        put(row, ASKED, at - texts)
        put(row, ASKED_SIZE, end - at)
    return 1, end - texts
