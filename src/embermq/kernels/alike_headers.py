"""Headers that are like one before them: the same bytes, but for four values.

A client's SENDs of one kind differ in their queue, time, properties and opaque number, and in nothing else. Where these
lie in a header that was read in full, its spots, is kept in its row, the model. Another header is compared with it
piece by piece, and only its own values are read: by the same functions, so that they mean the same.

    model    {"code":310,"extFields":{…,"e":"3","f":"0","g":"1712345678901",…,"i":"UNIQ_KEY…",…},…,"opaque":7,…}
                                             ▲               ▲▲▲▲▲▲▲▲▲▲▲▲▲         ▲▲▲▲▲▲▲▲▲                ▲
"""

from __future__ import annotations

from typing import Final

from embermq.kernels.compiling import part, variable
from embermq.kernels.memory import get, is_same, put
from embermq.kernels.scanning import read_number
from embermq.kernels.send_fields import PROPERTIES_FIELD, keep_properties, take_number
from embermq.kernels.send_properties import unescape
from embermq.kernels.send_rows import DRAFTS, FLAG, ONEWAY, OPAQUE, SYS_FLAG, TOPIC, TOPIC_AT, TOPIC_SIZE

# A spot is what lies there, and where it begins and ends behind the beginning of the header. Spots are kept in columns
# that nobody uses while headers are read.
OPAQUE_SPOT: Final = 9  # beside the numbers of fields
_FIRST_SPOT: Final = TOPIC
_SPOTS: Final = 4
_KIND_SHIFT: Final = 56
_BEGIN_SHIFT: Final = 28
_PLACE: Final = (1 << 28) - 1
_I32: Final = 2**31


@part
def forget_spots(row: int) -> None:
    """A header is about to be read into the row."""
    for number in range(_SPOTS):
        put(row, _FIRST_SPOT + number, 0)


@part
def note_spot(row: int, kind: int, header: int, begin: int, end: int) -> None:
    """What lies at [begin, end) of the header may be another value in the next one. The first four are noted."""
    for number in range(_SPOTS):
        if get(row, _FIRST_SPOT + number) == 0:
            put(row, _FIRST_SPOT + number, kind << _KIND_SHIFT | (begin - header) << _BEGIN_SHIFT | (end - header))
            return


@part
def _read_value(
    kind: int, at: int, end: int, limit: int, scratch: int, out: int, out_end: int, row: int
) -> tuple[int, int]:
    """Keep a value of this kind: the byte after it, below 0 if it is not usual, and the end of the scratch in use."""
    if kind == PROPERTIES_FIELD:
        quote, written = unescape(at, end, limit, out, out_end)
        if quote >= 0 and not keep_properties(out, written, out_end, scratch, row):
            quote = variable(-1)
        return quote, written
    if kind != OPAQUE_SPOT:
        return take_number(kind, at, end, row), out
    value, after = read_number(at, end)
    put(row, OPAQUE, value)
    return (after if -_I32 <= value < _I32 else -1), out


@part
def _copy_rest(row: int, model: int) -> None:
    """What is the same in headers that are alike."""
    for column in (SYS_FLAG, FLAG, ONEWAY, TOPIC_AT, TOPIC_SIZE, DRAFTS):
        put(row, column, get(model, column))


@part
def read_alike(
    model: int, model_begin: int, model_end: int, at: int, end: int, limit: int, scratch: int, out: int, out_end: int,
    row: int,
) -> int:  # fmt: skip
    """Read the header [at, end) into a row if it is like the model's; the end of what the scratch area holds, else -1.

    The model's header is [model_begin, model_end).
    """
    passed, written = model_begin, out
    for number in range(_SPOTS):
        spot = get(model, _FIRST_SPOT + number)
        size = model_begin + (spot >> _BEGIN_SHIFT & _PLACE) - passed
        if spot == 0 or size < 0 or size > end - at or not is_same(passed, at, size):
            return -1
        at, written = _read_value(spot >> _KIND_SHIFT, at + size, end, limit, scratch, written, out_end, row)
        if at < 0:
            return -1
        passed = model_begin + (spot & _PLACE)
    if model_end - passed != end - at or not is_same(passed, at, end - at):
        return -1
    _copy_rest(row, model)
    return written
