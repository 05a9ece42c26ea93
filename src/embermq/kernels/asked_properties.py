"""What the properties of a SEND ask for besides storing, where that is one thing that kernels can see to:

    TIMER_DELIVER_MS        to be delivered at a time
    TIMER_DELAY_MS, …_SEC   to be delivered so much later than now
    TRAN_MSG and PGROUP     to be hidden until its transaction ends

Everything else about them must be plain, as `send_properties.py` says, and nothing may stand there twice or look like
what the broker itself writes. Whatever is unusual is for ordinary code.
"""

from __future__ import annotations

from typing import Final

from embermq.kernels.compiling import part, variable
from embermq.kernels.memory import find_byte, load_i64, load_u8, load_u32, put
from embermq.kernels.scanning import read_number, read_word
from embermq.kernels.send_properties import asks_for_more_in
from embermq.kernels.send_rows import ASKED, ASKED_SIZE, ASKS, ASKS_COMMIT, ASKS_DELAY, ASKS_NOTHING, ASKS_TIME

_NAME_END: Final = 1
_PAIR_END: Final = 2
_MOST: Final = 10**18  # ms; longer numbers are refused
_MOST_SECONDS: Final = _MOST // 1000

_UNIQUE: Final = int.from_bytes(b"UNIQ_KEY")
_PREPARED: Final = int.from_bytes(b"TRAN_MSG")
_GROUP: Final = int.from_bytes(b"PGROUP")
_TIMER: Final = int.from_bytes(b"TIMER_DE")
_DELIVER_MS: Final = int.from_bytes(b"LIVER_MS")
_DELAY_MS: Final = int.from_bytes(b"LAY_MS")
_DELAY_SECONDS: Final = int.from_bytes(b"LAY_SEC")
_TRUE: Final = int.from_bytes(b"true")

# What a name is.
_OTHER, _ID, _MARK, _PRODUCERS, _TIME, _DELAY, _SECONDS, _UNSURE = range(8)


@part
def _time_of(rest: int, size: int) -> int:
    """What a name means that goes on so behind `TIMER_DE`; _OTHER if that is no time."""
    if size == 8 and load_i64(rest) == _DELIVER_MS:
        return _TIME
    if size == 6 and read_word(rest, 6) == _DELAY_MS:
        return _DELAY
    return _SECONDS if size == 7 and read_word(rest, 7) == _DELAY_SECONDS else _OTHER


@part
def _kind_of(at: int, size: int) -> int:
    """What the name of `size` bytes means; _UNSURE if it only ends like one that matters."""
    if size >= 8:
        if load_i64(at) == _TIMER:
            return _time_of(at + 8, size - 8)
        last = load_i64(at + size - 8)
        if last == _UNIQUE:
            return _ID if size == 8 else _UNSURE
        if last == _PREPARED:
            return _MARK if size == 8 else _UNSURE
    if size >= 6 and read_word(at + size - 6, 6) == _GROUP:
        return _PRODUCERS if size == 6 else _UNSURE
    return _OTHER


@part
def _read_asked(kind: int, value: int, pair_end: int) -> tuple[int, int]:
    """What the value of a time or of a transaction's mark asks for, and the ms; ASKS_NOTHING if it is unusual."""
    if kind == _MARK:
        return (ASKS_COMMIT if pair_end - value == 4 and load_u32(value) == _TRUE else ASKS_NOTHING), 0
    number, after = read_number(value, pair_end)
    if after != pair_end or not 0 < number < (_MOST_SECONDS if kind == _SECONDS else _MOST):
        return ASKS_NOTHING, 0
    if kind == _TIME:
        return ASKS_TIME, number
    return ASKS_DELAY, number * 1000 if kind == _SECONDS else number


@part
def find_asked(begin: int, end: int, limit: int, scratch: int, row: int) -> tuple[int, int]:
    """Where the value of the unique id begins and ends; 0 and 0 if the properties do not ask for one thing known here.

    What they ask for is kept in the row: a time or a delay, or the place of the producer group behind `scratch`.
    """
    if begin >= end or load_u8(end - 1) != _PAIR_END:
        return 0, 0
    unique = unique_end = group = group_end = variable(0)
    asks, time = variable(ASKS_NOTHING), variable(0)
    at, seen = begin, variable(0)
    while at < end:
        pair_end = find_byte(at, end, _PAIR_END)
        name_end = find_byte(at, pair_end, _NAME_END)
        value = name_end + 1
        if value > pair_end or find_byte(value, pair_end, _NAME_END) != pair_end:
            return 0, 0
        kind = _kind_of(at, name_end - at)
        if kind in (_TIME, _DELAY, _SECONDS, _MARK):
            asked, time = _read_asked(kind, value, pair_end)
            kind = variable(_MARK)  # there may be one of them
            if asked == ASKS_NOTHING:
                return 0, 0
            asks = asked
        elif kind == _UNSURE or asks_for_more_in(at, pair_end, limit):
            return 0, 0
        elif kind == _ID:
            unique, unique_end = value, pair_end
        elif kind == _PRODUCERS:
            group, group_end = value, pair_end
        if kind != _OTHER and seen & 1 << kind:
            return 0, 0
        seen |= 1 << kind
        at = pair_end + 1
    if unique == unique_end or asks == ASKS_NOTHING or (asks == ASKS_COMMIT and group == group_end):
        return 0, 0
    put(row, ASKS, asks)
    put(row, ASKED, group - scratch if asks == ASKS_COMMIT else time)
    put(row, ASKED_SIZE, group_end - group if asks == ASKS_COMMIT else 0)
    return unique, unique_end
