"""The properties of a SEND: out of JSON text into the bytes that are stored, and whether they are plain.

They are plain if the broker has nothing to do for them but to store the message: a unique id is there, and
none of the words that stand for more (a delay, a transaction, …) occurs anywhere. These are the questions of
the broker's own look at a plain message, with the same answers.
"""

from __future__ import annotations

from typing import Final

from embermq.kernels.compiling import part, variable
from embermq.kernels.memory import copy, find_byte, load_u8, load_u32, store_8
from embermq.kernels.scanning import (
    BACKSLASH,
    QUOTE,
    STEP,
    first_bit,
    peek,
    read_word,
    skip_character,
    text_stops,
    word_marks,
)

NOT_PLAIN: Final = -1
SCRATCH_FULL: Final = -2

_PAIR_END: Final = 2  # behind a property
_ESCAPED_BEGIN: Final = int.from_bytes(b"0001")
_ESCAPED_END: Final = int.from_bytes(b"0002")
_LOWER_U: Final = ord("u")

_LETTER_Y: Final = ord("Y")

# Words are known by a letter in them, their mark, and by what stands before and behind it.
_UNIQUE: Final = (int.from_bytes(b"UNIQ"), int.from_bytes(b"KEY\x01"))
_BEFORE_UNIQUE: Final = 4
_BEHIND_UNIQUE: Final = 5
_DELAY: Final = int.from_bytes(b"DELA")
_TIMER: Final = int.from_bytes(b"TIMER")
_INNER: Final = int.from_bytes(b"INNER")
_TRANSACTION: Final = (int.from_bytes(b"TRAN"), int.from_bytes(b"MSG"))
_POP: Final = (int.from_bytes(b"POP"), int.from_bytes(b"CK"))
_REPLY: Final = (int.from_bytes(b"REPLY"), int.from_bytes(b"TO_CLIEN"), int.from_bytes(b"T"))
_REAL: Final = int.from_bytes(b"REAL")
_CHECK: Final = int.from_bytes(b"CHECK")
_UNDERSCORE: Final = ord("_")
_TRANSIENT: Final = (int.from_bytes(b"_RMQ.TRA"), int.from_bytes(b"NSIENT."))


@part
def _hex_digit(byte: int) -> int:
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    lower = byte | 0x20
    return lower - 0x57 if 0x61 <= lower <= 0x66 else -1


@part
def read_hex4(at: int, end: int) -> int:
    """Four hexadecimal digits as a number; -1 if that is not what is there."""
    if end - at < 4:
        return -1
    value = variable(0)
    for index in range(4):
        digit = _hex_digit(load_u8(at + index))
        if digit < 0:
            return -1
        value = value << 4 | digit
    return value


@part
def simple_escape(byte: int) -> int:
    """What a backslash and this byte stand for; -1 if it is no escape of JSON, or a longer one."""
    if byte in (QUOTE, BACKSLASH, 0x2F):
        return byte
    if byte == 0x6E:
        return 0x0A
    if byte == 0x74:
        return 0x09
    if byte == 0x72:
        return 0x0D
    if byte == 0x62:
        return 0x08
    return 0x0C if byte == 0x66 else -1


@part
def _read_escape(at: int, end: int) -> tuple[int, int]:
    """The character that a backslash at `at` begins, and the byte after it; -1 for that if it is none."""
    if end - at < 2:
        return 0, -1
    kind = load_u8(at + 1)
    if kind != _LOWER_U:
        found = simple_escape(kind)
        return found, -1 if found < 0 else at + 2
    code = read_hex4(at + 2, end)
    if code < 0 or 0xDC00 <= code <= 0xDFFF:
        return 0, -1
    after = at + 6
    if code < 0xD800 or code > 0xDBFF:
        return code, after
    if end - after < 6 or load_u8(after) != BACKSLASH or load_u8(after + 1) != _LOWER_U:
        return 0, -1
    low = read_hex4(after + 2, end)
    if low < 0xDC00 or low > 0xDFFF:
        return 0, -1
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), after + 6


@part
def _write_character(code: int, out: int) -> int:
    """Write a character as UTF-8, at most four bytes; return the byte after it."""
    if code < 0x80:
        store_8(out, code)
        return out + 1
    if code < 0x800:
        store_8(out, 0xC0 | code >> 6)
        store_8(out + 1, 0x80 | code & 0x3F)
        return out + 2
    if code < 0x10000:
        store_8(out, 0xE0 | code >> 12)
        store_8(out + 1, 0x80 | code >> 6 & 0x3F)
        store_8(out + 2, 0x80 | code & 0x3F)
        return out + 3
    store_8(out, 0xF0 | code >> 18)
    store_8(out + 1, 0x80 | code >> 12 & 0x3F)
    store_8(out + 2, 0x80 | code >> 6 & 0x3F)
    store_8(out + 3, 0x80 | code & 0x3F)
    return out + 4


@part
def _write_unusual(at: int, end: int, out: int, out_end: int) -> tuple[int, int]:
    """Write what is no plain text: an escape or a character of several bytes. Both bytes after it, or a reason."""
    if load_u8(at) == BACKSLASH:
        if end - at >= 6 and load_u8(at + 1) == _LOWER_U and out < out_end:
            digits = load_u32(at + 2)
            if digits in (_ESCAPED_BEGIN, _ESCAPED_END):
                store_8(out, digits & 0xF)
                return at + 6, out + 1
        code, after = _read_escape(at, end)
        if after < 0:
            return NOT_PLAIN, out
        if out_end - out < 4:  # the longest character; what needs less fits next time as well
            return SCRATCH_FULL, out
        return after, _write_character(code, out)
    after = skip_character(at, end)
    if after < 0:
        return NOT_PLAIN, out
    if out_end - out < after - at:
        return SCRATCH_FULL, out
    copy(out, at, after - at)
    return after, out + after - at


@part
def unescape(at: int, end: int, limit: int, out: int, out_end: int) -> tuple[int, int]:
    """Write the text that begins at `at`, inside quotes: where it and where what was written ends.

    The first is the address of the closing quote, or a reason: NOT_PLAIN or SCRATCH_FULL.
    """
    while at < end:
        if limit - at >= STEP and out_end - out >= STEP:
            mask = text_stops(at)
            copy(out, at, STEP)  # what is too much of it is written over
            size = STEP if mask == 0 else first_bit(mask)
            at += size
            out += size
            if mask == 0 or at >= end:
                continue
        byte = load_u8(at)
        if byte == QUOTE:
            return at, out
        if byte < 0x20:
            return NOT_PLAIN, out
        if byte < 0x80 and byte != BACKSLASH:
            if out >= out_end:
                return SCRATCH_FULL, out
            store_8(out, byte)
            at += 1
            out += 1
            continue
        at, out = _write_unusual(at, end, out, out_end)
        if at < 0:
            return at, out
    return NOT_PLAIN, out


@part
def _look_back(at: int, begin: int) -> int:
    """The five bytes before `at` as one number, zeros for those before `begin`."""
    size = min(at - begin, 5)
    return read_word(at - size, size)


@part
def _asks_for_more(at: int, before: int, behind: int, end: int) -> bool:
    """Whether a word that stands for more than storing has its mark at `at`."""
    four, three = before & 0xFFFF_FFFF, before & 0xFF_FFFF
    if load_u8(at) == _LETTER_Y:
        return four == _DELAY
    if before in (_TIMER, _INNER):
        return True
    # What stands before the mark may begin one word, and the mark itself another.
    if four == _TRANSACTION[0] and behind >> 40 == _TRANSACTION[1]:
        return True
    if three == _POP[0] and behind >> 48 == _POP[1]:
        return True
    if before == _REPLY[0] and behind == _REPLY[1] and peek(at + 9, end) >> 56 == _REPLY[2]:
        return True
    return behind == _TRANSIENT[0] and peek(at + 9, end) >> 8 == _TRANSIENT[1]


@part
def _is_unique(at: int, before: int, behind: int) -> bool:
    """Whether the mark at `at` is that of the name of the unique id."""
    is_name = before & 0xFFFF_FFFF == _UNIQUE[0] and behind >> 32 == _UNIQUE[1]
    return is_name and load_u8(at) != _LETTER_Y


@part
def _next_mark(at: int, end: int, limit: int) -> int:
    """The first `_` or `Y` from `at` on, else `end`."""
    while at < end:
        if limit - at >= STEP:
            mask = word_marks(at)
            if mask != 0:
                return min(at + first_bit(mask), end)
            at += STEP
        else:
            byte = load_u8(at)
            if byte in (0x5F, _LETTER_Y):
                return at
            at += 1
    return end


@part
def _is_brokers(at: int, before: int, behind: int) -> bool:
    """Whether the mark at `at` may be that of a name which the broker gives to messages that wait."""
    if load_u8(at) == _LETTER_Y:
        return False
    return before & 0xFFFF_FFFF == _REAL or before == _CHECK or behind >> 56 == _UNDERSCORE


@part
def asks_for_more_in(begin: int, end: int, limit: int) -> bool:
    """Whether a word in the text stands for more than storing, or is one that the broker may write."""
    at = _next_mark(begin, end, limit)
    while at < end:
        before, behind = _look_back(at, begin), peek(at + 1, end)
        if _asks_for_more(at, before, behind, end) or _is_brokers(at, before, behind):
            return True
        at = _next_mark(at + 1, end, limit)
    return False


@part
def find_unique(begin: int, end: int, limit: int) -> tuple[int, int]:
    """Where the value of the unique id begins and ends in properties; 0 and 0 if they are not plain."""
    if begin >= end or load_u8(end - 1) != _PAIR_END:
        return 0, 0
    value = value_end = variable(0)
    at = _next_mark(begin, end, limit)
    while at < end:
        before, behind = _look_back(at, begin), peek(at + 1, end)
        if _asks_for_more(at, before, behind, end):
            return 0, 0
        if value == 0 and _is_unique(at, before, behind):
            name = at - _BEFORE_UNIQUE
            if name != begin and load_u8(name - 1) != _PAIR_END:
                return 0, 0
            value = at + _BEHIND_UNIQUE
            value_end = find_byte(value, end, _PAIR_END)
        at = _next_mark(at + 1, end, limit)
    if value == value_end:  # none, or an empty one
        return 0, 0
    return value, value_end
