"""What queues and index are told of records in log memory: their tags codes, and the hashes of their keys.

The records come as a table from encode_records or scan_records. `find_codes_and_keys` gives what
log.dispatching.tags_codes and log.index_keys.rows_of give; where the codes go is in queue_runs.py, where the keys go in
index_rows.py. A record that plain code treats in a way of its own (of the schedule topic, an inner batch, in light
queues) stops it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.kernels.columns import (
    DIVIDED,
    DONE,
    FULL,
    KEY_HASH,
    KEY_POSITION,
    KEY_STORE_TIME,
    KEY_WIDTH,
    MISUSED,
    NOT_TEXT,
    OUTSIDE,
    RECORD_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_PROPERTIES_SIZE,
    RECORD_STORE_TIME,
    RECORD_SYS_FLAG,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
    SCHEDULED,
)
from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.memory import (
    find_byte,
    fits,
    get,
    load_i32,
    load_u8,
    load_u16,
    put,
    row_at,
)
from embermq.kernels.text import hash_text
from embermq.model.flags import SysFlag
from embermq.model.topic import SCHEDULE_TOPIC

_TRANSACTION: Final = SysFlag.TRANSACTION_MASK
_ROLLED_BACK: Final = SysFlag.ROLLED_BACK
_I32: Final = 2**31
_MASK: Final = 0xFFFF_FFFF
_NAME_END: Final = 1
_VALUE_END: Final = 2
_BLANK: Final = ord(" ")
_HASH_SIGN: Final = ord("#")
_KEY_SIZE: Final = KEY_WIDTH * 8  # bytes of a row


def _number(text: bytes) -> int:
    return int.from_bytes(text, "big")


# Property names as the numbers that are read at their place.
_TAGS: Final = _number(b"TAGS")
_KEYS: Final = _number(b"KEYS")
_UNIQ: Final = _number(b"UNIQ")
_KEY: Final = _number(b"_KEY")
_INNE: Final = _number(b"INNE")
_R: Final = _number(b"R_")

_SCHEDULE: Final = np.frombuffer(SCHEDULE_TOPIC.encode(), np.uint8)


@part
def _is_schedule(topic: int, size: int) -> bool:
    if size != _SCHEDULE.size:
        return False
    index = 0
    while index < size and load_u8(topic + index) == _SCHEDULE[index]:
        index += 1
    return index == size


@part
def _has_parts(size: int, record: int) -> bool:
    """Whether topic and properties of a record lie in memory of `size` bytes."""
    return fits(get(record, RECORD_TOPIC_AT), get(record, RECORD_TOPIC_SIZE), size) and fits(
        get(record, RECORD_PROPERTIES_AT), get(record, RECORD_PROPERTIES_SIZE), size
    )


@part
def _find_values(begin: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Beginning and end of the values of TAGS, UNIQ_KEY and KEYS, and DONE; or DIVIDED as the last.

    By the rules of model.properties.find_property: the last value that is not empty counts.
    """
    tags = tags_end = unique = unique_end = keys = keys_end = begin
    at = begin
    while at < end:
        value_end = find_byte(at, end, _VALUE_END)
        if value_end - at >= 6:  # no shorter piece has one of these names, 0x01 and a value
            name = load_i32(at)
            if name == _INNE and load_u16(at + 4) == _R:
                return tags, tags_end, unique, unique_end, keys, keys_end, DIVIDED
            if name == _TAGS and load_u8(at + 4) == _NAME_END:
                tags, tags_end = at + 5, value_end
            elif name == _KEYS and load_u8(at + 4) == _NAME_END:
                keys, keys_end = at + 5, value_end
            elif name == _UNIQ and value_end - at >= 10 and load_i32(at + 4) == _KEY and load_u8(at + 8) == _NAME_END:
                unique, unique_end = at + 9, value_end
        at = value_end + 1
    return tags, tags_end, unique, unique_end, keys, keys_end, DONE


@part
def _add_key(begin: int, end: int, prefix: int, record: int, key: int, last: int) -> int:
    """Put one key of `record` into the row `key`, if it is before `last`; return why it could not.

    `prefix` is the hash of the topic and #.
    """
    if key >= last:
        return FULL
    value = hash_text(begin, end - begin, prefix)
    if value < 0:
        return NOT_TEXT
    if value >= _I32:
        value = (_MASK + 1 - value) & (_I32 - 1)  # 0 for -2³¹, which has no absolute value
    put(key, KEY_HASH, value)
    put(key, KEY_POSITION, get(record, RECORD_POSITION))
    put(key, KEY_STORE_TIME, get(record, RECORD_STORE_TIME))
    return DONE


@part
def _add_keys(
    unique: int, unique_end: int, words: int, words_end: int, prefix: int, record: int, key: int, last: int
) -> tuple[int, int]:
    """Put the unique key of a record and every word of its keys into rows from `key` on.

    Returns where the next would go, and why not all are there.
    """
    if unique < unique_end:
        reason = _add_key(unique, unique_end, prefix, record, key, last)
        if reason != DONE:
            return key, reason
        key += _KEY_SIZE
    at = words
    while at < words_end:
        word_end = find_byte(at, words_end, _BLANK)
        if word_end > at:
            reason = _add_key(at, word_end, prefix, record, key, last)
            if reason != DONE:
                return key, reason
            key += _KEY_SIZE
        at = word_end + 1
    return key, DONE


@part
def _file(data: int, size: int, record: int, after: int, key: int, last: int) -> tuple[int, int, int]:
    """Put the keys of one record into rows from `key` on; DONE, its tags code and the row for the next key.

    Or why it could not, 0 and `key`.
    """
    if not _has_parts(size, record):
        return OUTSIDE, 0, key
    topic, topic_size = data + get(record, RECORD_TOPIC_AT), get(record, RECORD_TOPIC_SIZE)
    if _is_schedule(topic, topic_size):
        return SCHEDULED, 0, key
    if get(record, RECORD_PROPERTIES_SIZE) == 0:  # neither tags nor keys
        return DONE, 0, key
    begin = data + get(record, RECORD_PROPERTIES_AT)
    tags, tags_end, unique, unique_end, words, words_end, reason = _find_values(
        begin, begin + get(record, RECORD_PROPERTIES_SIZE)
    )
    if reason != DONE:
        return reason, 0, key
    code = hash_text(tags, tags_end - tags, 0)
    if code < 0:
        return NOT_TEXT, 0, key
    if code >= _I32:
        code -= _MASK + 1
    is_filed = get(record, RECORD_SYS_FLAG) & _TRANSACTION != _ROLLED_BACK and get(record, RECORD_POSITION) > after
    if not is_filed or (unique == unique_end and words == words_end):
        return DONE, code, key
    prefix = hash_text(topic, topic_size, 0)
    if prefix < 0:
        return NOT_TEXT, 0, key
    prefix = (prefix * 31 + _HASH_SIGN) & _MASK
    following, reason = _add_keys(unique, unique_end, words, words_end, prefix, record, key, last)
    if reason != DONE:
        return reason, 0, key
    return DONE, code, following


@kernel("UniTuple(int64, 3)(int64, int64, int64[:, ::1], int64, int64[::1], int64[:, ::1])")
def find_codes_and_keys(
    data: int, size: int, records: Table, after: int, codes: Table, keys: Table
) -> tuple[int, int, int]:
    """Fill `codes` with the tags code of every record, and `keys` with the keys of those behind position `after`.

    `data` is the log memory of `size` bytes that the records lie in. Returns how many records and how many keys
    were taken, and why it went no further; of the record it stopped at, no key is counted.
    """
    if records.shape[1] != RECORD_WIDTH or keys.shape[1] != KEY_WIDTH or codes.size < records.shape[0] or size < 0:
        return 0, 0, MISUSED
    first, last = row_at(keys, 0), row_at(keys, keys.shape[0])
    key = first
    for number in range(records.shape[0]):
        record = row_at(records, number)
        reason, code, key = _file(data, size, record, after, key, last)
        if reason != DONE:
            return number, (key - first) // _KEY_SIZE, reason
        codes[number] = code
    return records.shape[0], (key - first) // _KEY_SIZE, DONE
