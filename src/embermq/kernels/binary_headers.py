"""The binary header of a SEND, read in one go; what is unusual makes it fall out."""

from __future__ import annotations

from typing import Final

from embermq.kernels.compiling import inlined, variable
from embermq.kernels.memory import copy, load_i32, load_u16, put
from embermq.kernels.scanning import find_stop, is_utf8
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
from embermq.kernels.send_properties import NOT_PLAIN, SCRATCH_FULL
from embermq.kernels.send_rows import ONEWAY, OPAQUE, TOPIC_AT, TOPIC_SIZE

# code 2   language 1   version 2   opaque 4   flag 4   remark size 4
_OPAQUE_AT: Final = 5
_FLAG_AT: Final = 9
_REMARK_SIZE_AT: Final = 13
_FIXED: Final = 17


@inlined
def _take_field(
    field: int, at: int, end: int, limit: int, scratch: int, out: int, out_end: int, row: int
) -> tuple[int, int]:
    """Keep the value [at, end) of a field; its end or a reason, and the end of what the scratch area holds."""
    if field == PROPERTIES_FIELD:
        if not is_utf8(at, end, limit):
            return NOT_PLAIN, out
        if out_end - out < end - at:
            return SCRATCH_FULL, out
        copy(out, at, end - at)
        written = out + end - at
        return (end if keep_properties(out, written, out_end, scratch, row) else NOT_PLAIN), written
    if field == TOPIC_FIELD:
        put(row, TOPIC_AT, at)
        put(row, TOPIC_SIZE, end - at)
        return (end if find_stop(at, end, limit) == end else NOT_PLAIN), out
    if field == OTHER_FIELD:
        return (end if is_utf8(at, end, limit) else NOT_PLAIN), out
    return (end if take_number(field, at, end, row) == end else NOT_PLAIN), out


@inlined
def _read_fields(
    code: int, at: int, end: int, limit: int, scratch: int, out: int, out_end: int, row: int
) -> tuple[int, int]:
    """Read the fields [at, end); a field without a name or a value counts as absent."""
    seen = variable(0)
    while at < end:
        if end - at < 2:
            return NOT_PLAIN, out
        name, name_size = at + 2, load_u16(at)
        if name_size >= 0x8000 or end - name < name_size + 4:
            return NOT_PLAIN, out
        value, value_size = name + name_size + 4, load_i32(name + name_size)
        if value_size < 0 or end - value < value_size:
            return NOT_PLAIN, out
        at = value + value_size
        if name_size == 0 or value_size == 0:
            continue
        field = find_field(code, name, name_size)
        bit = 1 << field & ALL_FIELDS
        if seen & bit or (bit == 0 and not is_utf8(name, name + name_size, limit)):
            return NOT_PLAIN, out
        seen |= bit
        after, out = _take_field(field, value, at, limit, scratch, out, out_end, row)
        if after < 0:
            return after, out
    return (at if seen & NEEDED == NEEDED else NOT_PLAIN), out


@inlined
def read_binary(
    begin: int, end: int, limit: int, scratch: int, out: int, out_end: int, row: int
) -> tuple[bool, int, int]:
    """The same as read_json for the other form."""
    if end - begin < _FIXED + 4:
        return False, NOT_PLAIN, out
    code, flag = load_u16(begin), load_i32(begin + _FLAG_AT)
    if not is_send(code) or flag not in (0, 2):
        return False, NOT_PLAIN, out
    put(row, OPAQUE, load_i32(begin + _OPAQUE_AT))
    put(row, ONEWAY, flag >> 1)
    remark_size = load_i32(begin + _REMARK_SIZE_AT)
    remark = begin + _FIXED
    if remark_size < 0 or end - remark < remark_size + 4 or not is_utf8(remark, remark + remark_size, limit):
        return False, NOT_PLAIN, out
    fields = remark + remark_size + 4
    fields_size = load_i32(fields - 4)
    if fields_size < 0 or end - fields < fields_size:
        return False, NOT_PLAIN, out
    after, out = _read_fields(code, fields, fields + fields_size, limit, scratch, out, out_end, row)
    if after >= 0 and not is_batch_as_told(code, row):
        after = NOT_PLAIN
    return after >= 0, after, out
