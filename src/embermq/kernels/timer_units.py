"""Messages of the timer: what those wait for that enter it; and of those that are due, the chain of a slot's units and
the drafts of the messages that they stand for.

    timer log   unit ←─ unit ←─ unit ←─ last of the slot          (format/timer_unit.py)
                  │        │       │
    log         record  record  record ─→ drafts: REAL_TOPIC, REAL_QID, and when it entered and left the timer

What is unusual about a unit or its message is for plain code: it stops there.
"""

from __future__ import annotations

from typing import Final

from embermq.format.host import HOST_V4_SIZE, HOST_V6_SIZE
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.format.record_layout import MAX_PROPERTIES_SIZE
from embermq.format.timer_unit import DELETE, ROLL, TIMER_UNIT_SIZE
from embermq.kernels.columns import (
    BYTES_ADDRESS,
    BYTES_SIZE,
    BYTES_WIDTH,
    DONE,
    DRAFT_BODY_AT,
    DRAFT_BODY_SIZE,
    DRAFT_BORN_HOST,
    DRAFT_BORN_TIME,
    DRAFT_FLAG,
    DRAFT_OFFSET,
    DRAFT_PREPARED_POSITION,
    DRAFT_PROPERTIES_AT,
    DRAFT_PROPERTIES_SIZE,
    DRAFT_QUEUE,
    DRAFT_RECONSUME_TIMES,
    DRAFT_SYS_FLAG,
    DRAFT_TOPIC,
    DRAFT_WIDTH,
    FULL,
    MISUSED,
    OUTSIDE,
    RECORD_BODY_AT,
    RECORD_BODY_SIZE,
    RECORD_PROPERTIES_AT,
    RECORD_PROPERTIES_SIZE,
    RECORD_SIZE,
    RECORD_SYS_FLAG,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
    UNFIT,
)
from embermq.kernels.compiling import Table, kernel, part, variable
from embermq.kernels.digits import count_digits, write_digits
from embermq.kernels.memory import (
    copy,
    find_byte,
    fits,
    get,
    is_same,
    load_i32,
    load_i64,
    load_u8,
    put,
    row_at,
    store_8,
    store_64,
)
from embermq.kernels.placing import QUEUES_WIDTH
from embermq.kernels.record_scan import LAST_POSITION, LONGER, scan_one
from embermq.kernels.scanning import read_number, read_word
from embermq.kernels.text import hash_text
from embermq.kernels.topics import find_topic
from embermq.model.flags import SysFlag

# What a message waits for: its time, the hash of its topic, and where its record and the topic's name are.
WAIT_TIME, WAIT_CODE, WAIT_POSITION, WAIT_SIZE, WAIT_TOPIC_AT, WAIT_TOPIC_SIZE = range(6)
WAIT_WIDTH: Final = 6

_NAME_END: Final = 1
_PAIR_END: Final = 2
_BORN_V6: Final = SysFlag.BORN_HOST_V6
_STORE_V6: Final = SysFlag.STORE_HOST_V6
_DIVIDED: Final = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
_REAL_TOPIC: Final = (int.from_bytes(b"REAL_TOP"), int.from_bytes(b"IC"))
_REAL_QUEUE: Final = int.from_bytes(b"REAL_QID")
_ENQUEUED: Final = (int.from_bytes(b"TIMER_EN"), int.from_bytes(b"QUEUE_MS"))
_DEQUEUED: Final = (int.from_bytes(b"TIMER_DE"), int.from_bytes(b"QUEUE_MS"))
_OUT: Final = (int.from_bytes(b"TIMER_OU"), int.from_bytes(b"T_MS"))
_CANCELS: Final = (int.from_bytes(b"TIMER_DE"), int.from_bytes(b"L_UNIQKE"))
_LATEST: Final = 2**62
_INNER: Final = int.from_bytes(b"INNER_")

# What names mean; a bit each, where several were seen.
_OTHER, _TOPIC, _QUEUE, _TIME, _CANCEL, _PUT_AGAIN, _INNER_ONE = range(7)
_WAITS: Final = 1 << _TOPIC | 1 << _TIME
_ENTERING: Final = _WAITS | 1 << _CANCEL  # what matters for who enters the timer, and
_TO_QUEUE: Final = 1 << _TOPIC | 1 << _QUEUE
_LEAVING: Final = _TO_QUEUE | 1 << _PUT_AGAIN | 1 << _INNER_ONE  # for who leaves it
_TIMES_SIZE: Final = 2 * (16 + 1 + 20 + 1) + 1  # of what is written behind properties, at most
_QUEUE_COUNT: Final = QUEUES_WIDTH - 1  # the column that tells how many queues a topic has


@kernel("UniTuple(int64, 2)(int64, int64, int64, int64, int64[::1], int64[::1])")
def follow_units(units: int, size: int, start: int, place: int, places: Table, codes: Table) -> tuple[int, int]:
    """Follow a chain backwards through `size` bytes of units, which begin at place `start` of the timer log.

    Writes down the places of units and the hashes of their topics; returns how many, and the place to go on with. It
    stops at units elsewhere, at those that cancel something, and at what cannot be.
    """
    count, most = variable(0), min(len(places), len(codes))
    while count < most and fits(place - start, TIMER_UNIT_SIZE, size):
        at = units + place - start
        previous = load_i64(at + 4)
        if load_i32(at + 12) & DELETE != 0 or previous >= place:
            break
        places[count], codes[count] = place, load_i32(at + 44)
        count += 1
        place = previous
    return count, place


@part
def _kind_of(at: int, size: int) -> int:
    """What the name of `size` bytes means to the timer."""
    if size < 8:
        return _INNER_ONE if size >= 6 and read_word(at, 6) == _INNER else _OTHER
    first = load_i64(at)
    if size == 8:
        return _QUEUE if first == _REAL_QUEUE else _OTHER
    second = read_word(at + 8, min(size - 8, 8))
    if size == 10 and first == _REAL_TOPIC[0] and second == _REAL_TOPIC[1]:
        return _TOPIC
    if size == 12 and first == _OUT[0] and second == _OUT[1]:
        return _TIME
    if size == 16 and first == _ENQUEUED[0] and second == _ENQUEUED[1]:
        return _PUT_AGAIN
    if size == 17 and first == _CANCELS[0] and second == _CANCELS[1]:
        return _CANCEL
    return _INNER_ONE if first >> 16 == _INNER else _OTHER


@part
def _read_wait(at: int, end: int) -> tuple[int, int, int, int, int]:
    """What properties tell the timer: which kinds of names they have, where the topic begins and ends, queue and time.

    No kinds at all mean that something is unusual.
    """
    topic = topic_end = queue = time = seen = variable(0)
    while at < end:
        pair_end = find_byte(at, end, _PAIR_END)
        name_end = find_byte(at, pair_end, _NAME_END)
        value = name_end + 1
        if value >= pair_end or find_byte(value, pair_end, _NAME_END) != pair_end:
            return 0, 0, 0, 0, 0
        kind = _kind_of(at, name_end - at)
        if kind != _OTHER and seen & 1 << kind:
            return 0, 0, 0, 0, 0
        seen |= 1 << kind
        if kind == _TOPIC:
            topic, topic_end = value, pair_end
        elif kind in (_QUEUE, _TIME):
            number, after = read_number(value, pair_end)
            if after != pair_end or number < 0:
                return 0, 0, 0, 0, 0
            queue, time = (number, time) if kind == _QUEUE else (queue, number)
        at = pair_end + 1
    return seen, topic, topic_end, queue, time


@kernel("int64(int64, int64, int64, int64, int64, int64[:, ::1], int64[:, ::1])")
def read_waits(
    entries: int, entries_size: int, log: int, log_size: int, log_start: int, records: Table, waits: Table
) -> int:
    """Find out what the messages of queue entries wait for, whose records lie in `log_size` bytes from `log_start` on.

    Returns how many it was found out of, before the first that plain code has to look at; `waits` has a row for each.
    """
    if waits.shape[1] != WAIT_WIDTH or records.shape[1] != RECORD_WIDTH or len(records) < 1:
        return 0
    if min(entries_size, log_size) < 0 or not 0 <= log_start <= LAST_POSITION - log_size:
        return 0
    record, count = row_at(records, 0), min(entries_size // QUEUE_ENTRY_SIZE, len(waits))
    for number in range(count):
        entry, wait = entries + number * QUEUE_ENTRY_SIZE, row_at(waits, number)
        position, size = load_i64(entry), load_i32(entry + 8)
        at = position - log_start
        if position < log_start or size < 0 or not fits(at, size, log_size):
            return number
        # Of this record alone, as its entry tells the size: what else lies there is another's.
        if scan_one(log, at + size, at, position, True, False, record) != DONE:
            return number
        properties = log + get(record, RECORD_PROPERTIES_AT)
        seen, topic, topic_end, _, time = _read_wait(properties, properties + get(record, RECORD_PROPERTIES_SIZE))
        if seen & _ENTERING != _WAITS:
            return number
        code = hash_text(topic, topic_end - topic, 0)
        if code < 0 or time > _LATEST:
            return number
        put(wait, WAIT_TIME, time)
        put(wait, WAIT_CODE, code - (1 << 32) if code >> 31 else code)
        put(wait, WAIT_POSITION, position)
        put(wait, WAIT_SIZE, get(record, RECORD_SIZE))
        put(wait, WAIT_TOPIC_AT, topic - log)
        put(wait, WAIT_TOPIC_SIZE, topic_end - topic)
    return count


@part
def _write_time(out: int, first: int, second: int, time: int) -> int:
    store_64(out, first)
    store_64(out + 8, second)
    store_8(out + 16, _NAME_END)
    out = write_digits(out + 17, time, count_digits(time))
    store_8(out, _PAIR_END)
    return out + 1


@part
def _write_properties(out: int, at: int, size: int, enqueued: int, dequeued: int) -> int:
    """Write properties with both times behind them; where that ends."""
    copy(out, at, size)
    out += size
    if size > 0 and load_u8(out - 1) != _PAIR_END:
        store_8(out, _PAIR_END)
        out += 1
    out = _write_time(out, _ENQUEUED[0], _ENQUEUED[1], enqueued)
    return _write_time(out, _DEQUEUED[0], _DEQUEUED[1], dequeued)


@part
def _fill_draft(draft: int, host: int, number: int, log: int, at: int, record: int) -> None:
    """Make a draft, and the row of its host, of the record at byte `at` of the log memory."""
    sys_flag = get(record, RECORD_SYS_FLAG)
    host_size = HOST_V6_SIZE if sys_flag & _BORN_V6 else HOST_V4_SIZE
    retries_at = 56 + (LONGER if sys_flag & _BORN_V6 else 0) + 16 + (LONGER if sys_flag & _STORE_V6 else 0)
    put(host, BYTES_ADDRESS, log + at + 48)
    put(host, BYTES_SIZE, host_size)
    put(draft, DRAFT_BODY_AT, get(record, RECORD_BODY_AT))
    put(draft, DRAFT_BODY_SIZE, get(record, RECORD_BODY_SIZE))
    put(draft, DRAFT_FLAG, load_i32(log + at + 16))
    put(draft, DRAFT_SYS_FLAG, sys_flag)
    put(draft, DRAFT_BORN_TIME, load_i64(log + at + 40))
    put(draft, DRAFT_BORN_HOST, number)
    put(draft, DRAFT_OFFSET, 0)
    put(draft, DRAFT_RECONSUME_TIMES, load_i32(log + at + retries_at))
    put(draft, DRAFT_PREPARED_POSITION, 0)


@part
def _find_place(
    log: int, log_size: int, position: int, at: int, timer: int, topics: int, topics_size: int, queues: Table,
    record: int, draft: int,
) -> bool:  # fmt: skip
    """Write down where the message at byte `at` of the log belongs; False if that is for plain code to say."""
    if scan_one(log, log_size, at, position, True, True, record) != DONE:
        return False
    timer_size = get(timer, BYTES_SIZE)
    if get(record, RECORD_TOPIC_SIZE) != timer_size or get(record, RECORD_SYS_FLAG) & _DIVIDED != 0:
        return False
    if not is_same(log + get(record, RECORD_TOPIC_AT), get(timer, BYTES_ADDRESS), timer_size):
        return False
    properties = log + get(record, RECORD_PROPERTIES_AT)
    seen, topic, topic_end, queue, _ = _read_wait(properties, properties + get(record, RECORD_PROPERTIES_SIZE))
    if seen & _LEAVING != _TO_QUEUE:
        return False
    number = find_topic(topics, topics_size, topic, topic_end - topic)
    if not 0 <= number < queues.shape[0] or queue >= get(row_at(queues, number), _QUEUE_COUNT):
        return False
    put(draft, DRAFT_TOPIC, number)
    put(draft, DRAFT_QUEUE, queue)
    return True


@kernel(
    "UniTuple(int64, 3)(int64, int64, int64, int64[::1], int64, int64, int64, int64[:, ::1], int64, int64,"
    " int64[:, ::1], int64, int64, int64, int64[:, ::1], int64[:, ::1], int64[:, ::1])"
)
def draft_due(
    units: int, units_size: int, units_start: int, places: Table, log: int, log_size: int, log_start: int,
    timer: Table, topics: int, topics_size: int, queues: Table, now: int, texts: int, texts_size: int, records: Table,
    drafts: Table, hosts: Table,
) -> tuple[int, int, int]:  # fmt: skip
    """Make drafts of the messages that the units at `places` stand for.

    Units and records are looked for in `units_size` and `log_size` bytes of memory that begin at these places of the
    timer log and the log. `timer` is the name of the timer's topic, as rows of a ByteTable are; `topics` a TopicTable,
    and `queues` what placing.py says. The new properties go to `texts`. `hosts` gets a row for each draft, from its
    second on. Returns how many drafts there are, one of each unit, how far the texts are used, and why it stopped:
    OUTSIDE if a unit or record is elsewhere, UNFIT for what is for plain code.
    """
    most = min(len(drafts), len(hosts) - 1)
    if drafts.shape[1] != DRAFT_WIDTH or hosts.shape[1] != BYTES_WIDTH or queues.shape[1] != QUEUES_WIDTH:
        return 0, 0, MISUSED
    if timer.shape[1] != BYTES_WIDTH or len(timer) < 1 or records.shape[1] != RECORD_WIDTH or len(records) < 1:
        return 0, 0, MISUSED
    if min(units_size, log_size, texts_size) < 0 or not 0 <= log_start <= LAST_POSITION - log_size or now < 0:
        return 0, 0, MISUSED
    record, used = row_at(records, 0), variable(0)
    for number in range(len(places)):
        if not fits(places[number] - units_start, TIMER_UNIT_SIZE, units_size):
            return number, used, OUTSIDE
        unit = units + places[number] - units_start
        flags, enqueued, position = load_i32(unit + 12), load_i64(unit + 16), load_i64(unit + 28)
        if flags & (ROLL | DELETE) != 0 or enqueued < 0:
            return number, used, UNFIT
        if position < log_start or position >= log_start + log_size:
            return number, used, OUTSIDE
        if number >= most:
            return number, used, FULL
        at, draft = position - log_start, row_at(drafts, number)
        if not _find_place(log, log_size, position, at, row_at(timer, 0), topics, topics_size, queues, record, draft):
            return number, used, UNFIT
        size = get(record, RECORD_PROPERTIES_SIZE)
        if size > MAX_PROPERTIES_SIZE - _TIMES_SIZE:
            return number, used, UNFIT
        if size + _TIMES_SIZE > texts_size - used:
            return number, used, FULL
        end = _write_properties(texts + used, log + get(record, RECORD_PROPERTIES_AT), size, enqueued, now)
        _fill_draft(draft, row_at(hosts, number + 1), number + 1, log, at, record)
        put(draft, DRAFT_PROPERTIES_AT, used)
        put(draft, DRAFT_PROPERTIES_SIZE, end - texts - used)
        used = end - texts
    return len(places), used, DONE
