"""Staged messages, many at a time: as they come, as a file keeps them, and as drafts when they are published.

    what came ─→ check_staged ─→ keep_staged ─→ what a file keeps ─→ draft_staged ─→ drafts, and texts with unique keys

The layouts are drawn in format/staged.py, and the bytes are those of plain code. A message that asks for more than to
be stored is for plain code, and so is one whose properties plain code would write otherwise.
"""

from __future__ import annotations

from typing import Final

from embermq.kernels.columns import (
    BYTES_ADDRESS,
    BYTES_SIZE,
    BYTES_WIDTH,
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
)
from embermq.kernels.compiling import Table, kernel, part, variable
from embermq.kernels.memory import (
    copy,
    find_byte,
    fits,
    get,
    is_same,
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    put,
    row_at,
    store_8,
    store_16,
    store_32,
)
from embermq.kernels.scanning import is_utf8

# What messages of a chunk may be: the queues of their topic, and the largest sizes of a body, of properties and of
# both with the topic.
QUEUES, BODY_LIMIT, PROPERTIES_LIMIT, SIZE_LIMIT = range(4)
LIMITS_SIZE: Final = 4
# What all messages of a chunk have: rows of a ByteTable.
SUFFIX, TOPIC, HOST = range(3)
SHARED_SIZE: Final = 3
# How unique keys are made: what stands before, and between, and behind the halves of a message's number.
KEY_NAME, KEY_FIRST, KEY_SECOND = range(3)
KEY_SIZE: Final = 32

COME_SIZE: Final = 26  # of a message besides its parts, as it comes
KEPT_SIZE: Final = 29  # as it is kept
_SYS_FLAG_AT: Final = 8
_BORN_TIME_AT: Final = 12
_BODY_SIZE_AT: Final = 20
_PROPERTIES_SIZE_AT: Final = 24
_TOPIC_SIZE_AT: Final = 26
_HOST_SIZE_AT: Final = 28
_I16: Final = 2**15
_NAME_END: Final = 1
_VALUE_END: Final = 2
_MOST_PROPERTIES: Final = 64  # of a message that kernels take
_TRANSIENT: Final = int.from_bytes(b"__RMQ.TR")
_TEN: Final = 10


@part
def _is_special(name: int, size: int, names: int, count: int) -> bool:
    """Whether plain code must look at a property of this name: one of `count` names in a table, or a client's own."""
    if size >= 8 and load_i64(name) == _TRANSIENT:
        return True
    for number in range(count):
        row = names + number * (BYTES_WIDTH * 8)
        if get(row, BYTES_SIZE) == size and is_same(get(row, BYTES_ADDRESS), name, size):
            return True
    return False


@part
def _is_repeated(name: int, size: int, begin: int) -> bool:
    """Whether a property before this one, from `begin` on, has its name."""
    at = begin
    while at < name:
        end = find_byte(at, name, _NAME_END)
        if end - at == size and is_same(at, name, size):
            return True
        at = find_byte(end, name, _VALUE_END) + 1
    return False


@part
def _is_plain(begin: int, end: int, limit: int, names: int, count: int) -> bool:
    """Whether properties are UTF-8, whole, each of another name, and none of them special."""
    at, found = begin, variable(0)
    while at < end:
        name_end = find_byte(at, end, _NAME_END)
        value_end = find_byte(at, end, _VALUE_END)
        size = name_end - at
        if size == 0 or value_end == end or value_end - name_end < 2 or found == _MOST_PROPERTIES:
            return False
        if _is_special(at, size, names, count) or _is_repeated(at, size, begin):
            return False
        found += 1
        at = value_end + 1
    return is_utf8(begin, end, limit)


@part
def _measure(at: int, end: int, head_size: int) -> tuple[int, int]:
    """The sizes of body and properties of the message at `at`; -1 and -1 if it is not whole, or has no body."""
    if end - at < head_size:
        return -1, -1
    left = end - at - head_size
    body_size, properties_size = load_i32(at + _BODY_SIZE_AT), load_u16(at + _PROPERTIES_SIZE_AT)
    if body_size <= 0 or body_size > left or properties_size >= _I16 or properties_size > left - body_size:
        return -1, -1
    return body_size, properties_size


@kernel("UniTuple(int64, 2)(int64, int64, int64[::1], int64[:, ::1])")
def check_staged(source: int, size: int, limits: Table, names: Table) -> tuple[int, int]:
    """How many messages the bytes that came begin with that kernels may keep, and how many bytes these are."""
    if len(limits) < LIMITS_SIZE or names.shape[1] != BYTES_WIDTH or size < 0:
        return 0, 0
    at, end, count, special = source, source + size, variable(0), row_at(names, 0)
    while at < end:
        body_size, properties_size = _measure(at, end, COME_SIZE)
        if body_size < 0 or body_size > limits[BODY_LIMIT] or properties_size > limits[PROPERTIES_LIMIT]:
            break
        if body_size + properties_size > limits[SIZE_LIMIT] or not 0 <= load_i32(at) < limits[QUEUES]:
            break
        properties = at + COME_SIZE + body_size
        if not _is_plain(properties, properties + properties_size, end, special, names.shape[0]):
            break
        count += 1
        at = properties + properties_size
    return count, at - source


@kernel("int64(int64, int64, int64[:, ::1], int64, int64, int64, int64)")
def keep_staged(
    source: int, size: int, shared: Table, client_flags: int, host_flag: int, target: int, target_size: int
) -> int:
    """Write messages that were checked as a file keeps them: with what they share; how many bytes that takes.

    Of the system flags, those that clients may set are kept. It is 0 if the target has no room for all of them.
    """
    if shared.shape[0] != SHARED_SIZE or shared.shape[1] != BYTES_WIDTH or size < 0:
        return 0
    suffix, topic, host = row_at(shared, SUFFIX), row_at(shared, TOPIC), row_at(shared, HOST)
    suffix_size, topic_size, host_size = get(suffix, BYTES_SIZE), get(topic, BYTES_SIZE), get(host, BYTES_SIZE)
    at, end, to, to_end = source, source + size, target, target + target_size
    while at < end:
        body_size, properties_size = _measure(at, end, COME_SIZE)
        own_size = body_size + properties_size
        kept_size = KEPT_SIZE + own_size + suffix_size + topic_size + host_size
        if body_size < 0 or kept_size > to_end - to:
            return 0
        copy(to, at, COME_SIZE)
        store_32(to + _SYS_FLAG_AT, load_i32(at + _SYS_FLAG_AT) & client_flags | host_flag)
        store_16(to + _PROPERTIES_SIZE_AT, properties_size + suffix_size)
        store_16(to + _TOPIC_SIZE_AT, topic_size)
        store_8(to + _HOST_SIZE_AT, host_size)
        to += KEPT_SIZE
        copy(to, at + COME_SIZE, own_size)
        copy(to + own_size, get(suffix, BYTES_ADDRESS), suffix_size)
        to += own_size + suffix_size
        copy(to, get(topic, BYTES_ADDRESS), topic_size)
        copy(to + topic_size, get(host, BYTES_ADDRESS), host_size)
        to += topic_size + host_size
        at += COME_SIZE + own_size
    return to - target


@part
def _write_hex(to: int, value: int) -> int:
    """Write sixteen bits as four digits; where they end."""
    for index in range(4):
        digit = value >> (12 - 4 * index) & 0xF
        store_8(to + index, digit + (0x30 if digit < _TEN else 0x37))
    return to + 4


@part
def _write_key(to: int, keys: int, number: int) -> int:
    """Write the property that holds a message's unique key; where it ends."""
    name, first, second = keys, keys + BYTES_WIDTH * 8, keys + 2 * BYTES_WIDTH * 8
    copy(to, get(name, BYTES_ADDRESS), get(name, BYTES_SIZE))
    to += get(name, BYTES_SIZE)
    copy(to, get(first, BYTES_ADDRESS), get(first, BYTES_SIZE))
    to = _write_hex(to + get(first, BYTES_SIZE), number >> 16 & 0xFFFF)
    copy(to, get(second, BYTES_ADDRESS), get(second, BYTES_SIZE))
    to = _write_hex(to + get(second, BYTES_SIZE), number & 0xFFFF)
    store_8(to, _VALUE_END)
    return to + 1


@part
def _has_shared(at: int, left: int, shared: int) -> bool:
    """Whether a message has, behind its properties, the topic and host that all have; `left` bytes are there."""
    topic, host = shared + TOPIC * BYTES_WIDTH * 8, shared + HOST * BYTES_WIDTH * 8
    topic_size, host_size = get(topic, BYTES_SIZE), get(host, BYTES_SIZE)
    return (
        topic_size + host_size <= left
        and is_same(at, get(topic, BYTES_ADDRESS), topic_size)
        and is_same(at + topic_size, get(host, BYTES_ADDRESS), host_size)
    )


@part
def _fill(draft: int, message: int, source: int, body_size: int, text_at: int, text_size: int) -> None:
    put(draft, DRAFT_BODY_AT, message + KEPT_SIZE - source)
    put(draft, DRAFT_BODY_SIZE, body_size)
    put(draft, DRAFT_PROPERTIES_AT, text_at)
    put(draft, DRAFT_PROPERTIES_SIZE, text_size)
    put(draft, DRAFT_TOPIC, 0)  # the only one
    put(draft, DRAFT_QUEUE, load_i32(message))
    put(draft, DRAFT_FLAG, load_i32(message + 4))
    put(draft, DRAFT_SYS_FLAG, load_i32(message + _SYS_FLAG_AT))
    put(draft, DRAFT_BORN_TIME, load_i64(message + _BORN_TIME_AT))
    put(draft, DRAFT_BORN_HOST, 0)
    put(draft, DRAFT_OFFSET, 0)
    put(draft, DRAFT_RECONSUME_TIMES, 0)
    put(draft, DRAFT_PREPARED_POSITION, 0)


@kernel(
    "UniTuple(int64, 2)(int64, int64, int64[:, ::1], int64[:, ::1], int64[:, ::1], int64, int64, int64, int64,"
    " int64[:, ::1])"
)
def draft_staged(
    source: int,
    size: int,
    shared: Table,
    names: Table,
    keys: Table,
    number: int,
    queues: int,
    texts: int,
    texts_size: int,
    drafts: Table,
) -> tuple[int, int]:
    """Make drafts of the messages that a file kept, whose unique keys begin with that of `number`.

    All have one topic and one host, those of `shared`; their properties go to `texts`, each with its key. Returns how
    many drafts there are before a message that is for plain code, and how far the texts are used.
    """
    if drafts.shape[1] != DRAFT_WIDTH or min(shared.shape[0], keys.shape[0]) < SHARED_SIZE or size < 0:
        return 0, 0
    if not shared.shape[1] == names.shape[1] == keys.shape[1] == BYTES_WIDTH:
        return 0, 0
    at, end, count, used = source, source + size, variable(0), variable(0)
    parts, special, key_rows = row_at(shared, 0), row_at(names, 0), row_at(keys, 0)
    key_room = get(key_rows, BYTES_SIZE) + KEY_SIZE + 1
    topic_size, host_size = get(row_at(shared, TOPIC), BYTES_SIZE), get(row_at(shared, HOST), BYTES_SIZE)
    while at < end and count < drafts.shape[0]:
        body_size, properties_size = _measure(at, end, KEPT_SIZE)
        if body_size < 0 or load_u16(at + _TOPIC_SIZE_AT) != topic_size or load_u8(at + _HOST_SIZE_AT) != host_size:
            break
        properties = at + KEPT_SIZE + body_size
        behind = properties + properties_size
        if not _has_shared(behind, end - behind, parts) or not 0 <= load_i32(at) < queues:
            break
        if not fits(used, properties_size + key_room, texts_size):
            break
        if not _is_plain(properties, behind, end, special, names.shape[0]):
            break
        copy(texts + used, properties, properties_size)
        _write_key(texts + used + properties_size, key_rows, number + count)
        _fill(row_at(drafts, count), at, source, body_size, used, properties_size + key_room)
        used += properties_size + key_room
        count += 1
        at = behind + topic_size + host_size
    return count, used
