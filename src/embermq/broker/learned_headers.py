"""Headers of requests that are learned: which of their bytes are numbers that change from one to the next.

A header is learned only if ordinary code, given it with other numbers in the gaps, reads the same request with those
numbers. Only loaded where kernels are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from embermq.errors import BadFrame
from embermq.format.command import Command, decode_command, encode_head
from embermq.format.frame import BINARY_FORM, FRAME_HEAD, JSON_FORM, Frame
from embermq.kernels.patterns import (
    NO_NUMBER,
    OPAQUE,
    OTHER_OFFSET,
    REST,
    START,
    TEXT_END,
    TEXT_SIZE,
    Pattern,
)

LONGEST_HEADER: Final = 4096  # bytes, of a request that is learned
_SIZE_SIZE: Final = 4
_OPAQUE_AT: Final = 5  # in a binary header, which has the size of its remark at 13
_REMARK_AT: Final = 13
_JSON_OPAQUE: Final = re.compile(rb'"opaque"\s*:\s*(-?\d+)')

Gap = tuple[int, int, int]  # where it begins and ends, and what number it has
Numbers = Mapping[int, int]
Steps = Sequence[tuple[bytes, int]]


class Changing(NamedTuple):
    """A field that changes: how it is found in either form of a header, and what numbers its groups have in each."""

    json: re.Pattern[bytes]
    json_numbers: Sequence[int]
    binary: re.Pattern[bytes]
    binary_numbers: Sequence[int]


def changing_number(name: str, number: int) -> Changing:
    """A field that is a number."""
    key = name.encode()
    return Changing(
        re.compile(rb'"%b"\s*:\s*"(\d+)"' % key),
        (number,),
        re.compile(re.escape(len(key).to_bytes(2)) + key + rb"(....\d+)", re.DOTALL),
        (number,),
    )


def find_frame(view: memoryview, begin: int, end: int, code: int) -> Frame | None:
    """The frame that begins at `begin`, if it is whole, has no body and looks like a request of this code."""
    if end - begin < FRAME_HEAD.size:
        return None
    size, form_and_header = FRAME_HEAD.unpack_from(view, begin)
    form, header_size = form_and_header >> 24, form_and_header & 0xFF_FFFF
    header_at = begin + FRAME_HEAD.size
    if size != _SIZE_SIZE + header_size or header_size > min(end - header_at, LONGEST_HEADER):
        return None
    header = view[header_at : header_at + header_size].tobytes()
    if form == BINARY_FORM:
        is_it = header.startswith((code & 0xFFFF).to_bytes(2))
    else:
        is_it = form == JSON_FORM and b'"code":%d,' % code in header  # as all clients write it
    return (form, header, b"") if is_it else None


def request_pattern(
    form: int,
    header: bytes,
    request: Command,
    changing: Sequence[Changing],
    trials: Sequence[Numbers],
    fields_of: Callable[[Numbers], Mapping[str, str]],
) -> Pattern | None:
    """The header without its numbers; None if it is not certain which they are.

    `fields_of` tells what fields a request with the numbers of a trial has.
    """
    gaps = _json_gaps(header, changing) if form == JSON_FORM else _binary_gaps(header, changing)
    if not gaps:
        return None
    steps = _steps(header, gaps)
    for numbers in trials:
        try:
            read = decode_command((form, _render(form, steps, numbers), b""))
        except BadFrame:
            return None
        expected = (request.code, request.flag, numbers[OPAQUE], fields_of(numbers))
        if (read.code, read.flag, read.opaque, read.fields) != expected:
            return None
    return Pattern(form, steps)


def answer_pattern(answer: Command, marks: Sequence[tuple[int, int]]) -> Pattern:
    """The header of an answer without its numbers, each of which has a mark in it that is nowhere else."""
    form = answer.form
    header = encode_head(answer, 0)[FRAME_HEAD.size :]
    gaps: list[Gap] = []
    for mark, number in marks:
        begin = header.index(b"%d" % mark)
        gaps.append((begin - (_SIZE_SIZE if form == BINARY_FORM else 0), begin + len(b"%d" % mark), number))
    if form == BINARY_FORM:
        rest = _rest_at(header)
        gaps += [(_OPAQUE_AT, _OPAQUE_AT + 4, OPAQUE), (rest, rest + 4, REST)]
    else:
        gaps.append(_find_gaps(header, [(_JSON_OPAQUE, (OPAQUE,))])[0])
    return Pattern(form, _steps(header, sorted(gaps)))


def _json_gaps(header: bytes, changing: Sequence[Changing]) -> list[Gap]:
    if b"\\" in header:  # without one, every quote is the beginning or the end of a text
        return []
    return _find_gaps(header, [*((each.json, each.json_numbers) for each in changing), (_JSON_OPAQUE, (OPAQUE,))])


def _binary_gaps(header: bytes, changing: Sequence[Changing]) -> list[Gap]:
    gaps = _find_gaps(header, [(each.binary, each.binary_numbers) for each in changing])
    rest = _rest_at(header)
    if not gaps or gaps[0][0] < rest + 4 or int.from_bytes(header[rest : rest + 4]) != len(header) - rest - 4:
        return []
    return [(_OPAQUE_AT, _OPAQUE_AT + 4, OPAQUE), (rest, rest + 4, REST), *gaps]


def _rest_at(header: bytes) -> int:
    """Where a binary header, known to be one, has the size of its fields."""
    return _REMARK_AT + 4 + int.from_bytes(header[_REMARK_AT : _REMARK_AT + 4])


def _find_gaps(header: bytes, forms: Sequence[tuple[re.Pattern[bytes], Sequence[int]]]) -> list[Gap]:
    """The gaps of all that changes; none at all if something is not there once."""
    gaps: list[Gap] = []
    for form, numbers in forms:
        found = list(form.finditer(header))
        if len(found) != 1:
            return []
        gaps += [(*found[0].span(group), number) for group, number in enumerate(numbers, 1)]
    return sorted(gaps)


def _steps(header: bytes, gaps: Sequence[Gap]) -> Steps:
    steps, at = [], 0
    for begin, end, number in gaps:
        steps.append((header[at:begin], number))
        at = end
    return [*steps, (header[at:], NO_NUMBER)]


def _render(form: int, steps: Steps, numbers: Numbers) -> bytes:
    """A header with these numbers in its gaps."""
    out, places = bytearray(), {REST: 0, TEXT_SIZE: 0}
    for piece, number in steps:
        out += piece
        if number in places:
            places[number] = len(out)
            out += bytes(4)
        elif number == TEXT_END:
            _put_size(out, places[TEXT_SIZE])
        elif number == OPAQUE and form == BINARY_FORM:
            out += numbers[OPAQUE].to_bytes(4)
        elif number != NO_NUMBER:
            digits = b"%d" % numbers[number]
            is_sized = form == BINARY_FORM and not START <= number <= OTHER_OFFSET
            out += (len(digits).to_bytes(4) if is_sized else b"") + digits
    if form == BINARY_FORM:
        _put_size(out, places[REST])
    return bytes(out)


def _put_size(out: bytearray, at: int) -> None:
    """Write, at `at`, how many bytes follow it."""
    out[at : at + 4] = (len(out) - at - 4).to_bytes(4)
