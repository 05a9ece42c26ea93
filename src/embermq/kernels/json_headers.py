"""The JSON header of a SEND, read in one go.

Any order of keys and any white space will do. What a plain SEND has no use for makes it fall out: escapes in names,
fields that are no text, values that are lists or objects, anything twice, anything that is missing.
"""

from __future__ import annotations

from typing import Final

from embermq.kernels.alike_headers import OPAQUE_SPOT, forget_spots, note_spot
from embermq.kernels.compiling import inlined, part, variable
from embermq.kernels.memory import get, load_u8, put
from embermq.kernels.scanning import (
    BACKSLASH,
    QUOTE,
    find_stop,
    peek,
    read_number,
    read_word,
    skip_character,
    skip_space,
)
from embermq.kernels.send_fields import (
    ALL_FIELDS,
    NEEDED,
    OTHER_FIELD,
    PROPERTIES_FIELD,
    TOPIC_FIELD,
    find_field,
    is_batch_as_told,
    is_send,
    keep_properties,
    take_number,
)
from embermq.kernels.send_properties import NOT_PLAIN, read_hex4, simple_escape, unescape
from embermq.kernels.send_rows import BORN_TIME, ONEWAY, OPAQUE, QUEUE, TOPIC_AT, TOPIC_SIZE

_COLON: Final = ord(":")
_COMMA: Final = ord(",")
_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")
_I32: Final = 2**31

# The members of a header, each a bit.
_OTHER: Final = 0
_CODE: Final = 1
_FIELDS: Final = 2
_FLAG: Final = 4
_OPAQUE: Final = 8
_VERSION: Final = 16
_TEXTS: Final = 32  # language and remark: text or null
_NEEDED_MEMBERS: Final = _CODE | _FIELDS | _FLAG | _OPAQUE
_NUMBERS: Final = _CODE | _FLAG | _OPAQUE | _VERSION

_CODE_NAME: Final = int.from_bytes(b"code")
_FLAG_NAME: Final = int.from_bytes(b"flag")
_OPAQUE_NAME: Final = int.from_bytes(b"opaque")
_REMARK_NAME: Final = int.from_bytes(b"remark")
_VERSION_NAME: Final = int.from_bytes(b"version")
_LANGUAGE_NAME: Final = int.from_bytes(b"language")
_FIELDS_NAME: Final = (int.from_bytes(b"extField"), ord("s"))
_NULL: Final = int.from_bytes(b"null")
_TRUE: Final = int.from_bytes(b"true")
_FALSE: Final = int.from_bytes(b"false")


@part
def skip_string(at: int, end: int, limit: int) -> int:
    """The closing quote of the text that begins at `at`; -1 if it is not as it should be."""
    while True:
        at = find_stop(at, end, limit)
        if at >= end:
            return -1
        byte = load_u8(at)
        if byte == QUOTE:
            return at
        if byte >= 0x80:
            at = skip_character(at, end)
        elif byte != BACKSLASH or end - at < 2:
            return -1
        elif load_u8(at + 1) == 0x75:  # u
            at = at + 6 if read_hex4(at + 2, end) >= 0 else -1
        else:
            at = at + 2 if simple_escape(load_u8(at + 1)) >= 0 else -1
        if at < 0:
            return -1


@part
def _find_member(at: int, size: int) -> int:
    if size > 9 or size < 4:
        return _OTHER
    word = read_word(at, min(size, 8))
    if size == 4:
        return _CODE if word == _CODE_NAME else _FLAG if word == _FLAG_NAME else _OTHER
    if size == 6:
        return _OPAQUE if word == _OPAQUE_NAME else _TEXTS if word == _REMARK_NAME else _OTHER
    if size == 7:
        return _VERSION if word == _VERSION_NAME else _OTHER
    if size == 8:
        return _TEXTS if word == _LANGUAGE_NAME else _OTHER
    if size == 9 and word == _FIELDS_NAME[0] and load_u8(at + 8) == _FIELDS_NAME[1]:
        return _FIELDS
    return _OTHER


@part
def _skip_value(at: int, end: int, limit: int, is_text: bool) -> int:
    """The byte after a value that nobody asks for; -1 if it is not simple, or not text or null where that is due."""
    if at >= end:
        return -1
    if load_u8(at) == QUOTE:
        quote = skip_string(at + 1, end, limit)
        return -1 if quote < 0 else quote + 1
    word = peek(at, end)
    if word >> 32 == _NULL:
        return at + 4
    if is_text:
        return -1
    if word >> 32 == _TRUE:
        return at + 4
    if word >> 24 == _FALSE:
        return at + 5
    _, after = read_number(at, end)
    return after


@part
def _open_value(at: int, end: int, limit: int) -> tuple[int, int]:
    """Of the member whose name begins with a quote at `at`: where the name ends and its value begins, or -1."""
    if at >= end or load_u8(at) != QUOTE:
        return -1, -1
    if end - at > 2 and load_u8(at + 2) == QUOTE and 0x61 <= load_u8(at + 1) <= 0x7A:
        name_end = at + 2  # one letter, as most names are
    else:
        name_end = find_stop(at + 1, end, limit)
        if name_end >= end or load_u8(name_end) != QUOTE:
            return -1, -1
    at = skip_space(name_end + 1, end)
    if at >= end or load_u8(at) != _COLON:
        return -1, -1
    return name_end, skip_space(at + 1, end)


@part
def _next_member(at: int, end: int) -> tuple[int, bool]:
    """Behind a value: where the next member begins, or the byte after the object; -1 if there is neither."""
    at = skip_space(at, end)
    if at >= end:
        return -1, True
    byte = load_u8(at)
    if byte == _COMMA:
        return skip_space(at + 1, end), False
    return (at + 1 if byte == _CLOSE else -1), True


@inlined
def _take_field(
    field: int, at: int, end: int, limit: int, scratch: int, out: int, out_end: int, row: int
) -> tuple[int, int]:
    """Keep the value of a field; its closing quote or a reason, and the end of what the scratch area holds."""
    if field == OTHER_FIELD:
        return skip_string(at, end, limit), out
    if field == PROPERTIES_FIELD:
        quote, written = unescape(at, end, limit, out, out_end)
        if quote >= 0 and not keep_properties(out, written, out_end, scratch, row):
            quote = NOT_PLAIN
        return quote, written
    if field == TOPIC_FIELD:
        quote = find_stop(at, end, limit)
        put(row, TOPIC_AT, at)
        put(row, TOPIC_SIZE, quote - at)
        if quote == at:
            return NOT_PLAIN, out
    else:
        quote = take_number(field, at, end, row)
    if quote < 0 or quote >= end or load_u8(quote) != QUOTE:
        return NOT_PLAIN, out
    return quote, out


@inlined
def _read_fields(
    code: int, header: int, at: int, end: int, limit: int, scratch: int, out: int, out_end: int, row: int
) -> tuple[int, int]:
    """Read the fields, an object whose first brace is behind us; the byte after it or a reason, and as above."""
    seen = variable(0)
    at = skip_space(at, end)
    while True:
        name = at + 1
        name_end, at = _open_value(at, end, limit)
        if at < 0 or at >= end or load_u8(at) != QUOTE:
            return NOT_PLAIN, out
        field = find_field(code, name, name_end - name)
        bit = 1 << field & ALL_FIELDS
        if seen & bit:
            return NOT_PLAIN, out
        seen |= bit
        value = at + 1
        at, out = _take_field(field, value, end, limit, scratch, out, out_end, row)
        if at < 0:
            return at, out
        if field in (QUEUE, BORN_TIME, PROPERTIES_FIELD):
            note_spot(row, field, header, value, at)
        at, is_last = _next_member(at + 1, end)
        if at < 0:
            return NOT_PLAIN, out
        if is_last:
            return (at if seen & NEEDED == NEEDED else NOT_PLAIN), out


@part
def _skip_fields(at: int, end: int, limit: int) -> int:
    """The byte after the fields, whose first brace is behind us; -1 if they are not simple."""
    at = skip_space(at, end)
    while True:
        _, at = _open_value(at, end, limit)
        if at < 0 or at >= end or load_u8(at) != QUOTE:
            return -1
        at = skip_string(at + 1, end, limit)
        if at < 0:
            return -1
        at, is_last = _next_member(at + 1, end)
        if at < 0 or is_last:
            return at


@part
def _keep_member(member: int, value: int, row: int) -> bool:
    """Keep a number of the header; False if it is not that of a plain SEND."""
    if not -_I32 <= value < _I32:
        return False
    if member == _CODE:
        return is_send(value)
    if member == _FLAG:
        put(row, ONEWAY, value >> 1)
        return value in (0, 2)
    if member == _OPAQUE:
        put(row, OPAQUE, value)
    return True


@inlined
def _take_member(
    member: int, code: int, header: int, at: int, end: int, limit: int, scratch: int, out: int, out_end: int, row: int
) -> tuple[int, int, int]:
    """Keep the value of a member that begins at `at`: the code as it is known then, and as above."""
    if member & _NUMBERS:
        value, after = read_number(at, end)
        is_usual = after >= 0 and _keep_member(member, value, row)
        if is_usual and member == _OPAQUE:
            note_spot(row, OPAQUE_SPOT, header, at, after)
        return value if member == _CODE else code, after if is_usual else NOT_PLAIN, out
    if member != _FIELDS:
        return code, _skip_value(at, end, limit, member == _TEXTS), out
    if load_u8(at) != _OPEN:
        return code, NOT_PLAIN, out
    if code == 0:
        return code, _skip_fields(at + 1, end, limit), out
    after, out = _read_fields(code, header, at + 1, end, limit, scratch, out, out_end, row)
    return code, after, out


@inlined
def _read_members(
    code: int, begin: int, end: int, limit: int, scratch: int, out: int, out_end: int, row: int
) -> tuple[int, int, int]:
    """Read the header [begin, end): its code, the byte after it or a reason, and as above.

    Unless the `code` is known, or found before the fields, they are passed over.
    """
    forget_spots(row)
    at = skip_space(begin, end)
    if at >= end or load_u8(at) != _OPEN:
        return 0, NOT_PLAIN, out
    at = skip_space(at + 1, end)
    seen = variable(0)
    is_last = False
    while not is_last:
        name = at + 1
        name_end, at = _open_value(at, end, limit)
        if at < 0 or at >= end:
            return 0, NOT_PLAIN, out
        member = _find_member(name, name_end - name)
        if seen & member & ~_TEXTS:
            return 0, NOT_PLAIN, out
        seen |= member
        code, at, out = _take_member(member, code, begin, at, end, limit, scratch, out, out_end, row)
        if at < 0:
            return 0, at, out
        at, is_last = _next_member(at, end)
        if at < 0:
            return 0, NOT_PLAIN, out
    is_whole = seen & _NEEDED_MEMBERS == _NEEDED_MEMBERS and skip_space(at, end) == end
    return code, at if is_whole else NOT_PLAIN, out


@inlined
def read_json(
    begin: int, end: int, limit: int, scratch: int, out: int, out_end: int, row: int
) -> tuple[bool, int, int]:
    """Read the header [begin, end) into a row: whether it is a plain SEND, else why not, and as above.

    The topic's place is kept as an address.
    """
    code = variable(0)
    after = written = out
    put(row, TOPIC_SIZE, 0)
    while after >= 0 and get(row, TOPIC_SIZE) == 0:  # twice if the fields, a topic among them, come before the code
        code, after, written = _read_members(code, begin, end, limit, scratch, out, out_end, row)
    if after >= 0 and not is_batch_as_told(code, row):
        after = NOT_PLAIN
    return after >= 0, after, written
