"""Headers are read by two decoders, a compiled and a plain one: what the plain one takes, the other takes for the same.

It may take a little more: it does not look at members that nobody asks for.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import BadFrame
from embermq.format.command import Command, decode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, Frame, split_frames
from embermq.kernels.commands import decode_command as decode_fast
from tests.fuzz.hostile import CODES, Hostile

CASES = 20_000
MANY_CASES = 400_000
NO_FRAME = "no frame"

numbers = st.sampled_from([0, 1, 2, 310, 2**31 - 1, 2**31, -(2**31) - 1, 2**63, 2**64, 1.0, True, None, "0", "310", ""])
values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()) | numbers
send_values: st.SearchStrategy[object] = st.sampled_from(
    ["0", "1", "-1", "", " 1", "1.0", "true", "false", "null", "9" * 20, 0, True, None, []]
)
send_fields = st.fixed_dictionaries(
    {"b": st.text(), "e": send_values, "f": send_values, "g": send_values, "h": send_values, "i": st.text()},
    optional={"j": send_values, "m": send_values, "a": values},
)
headers = st.fixed_dictionaries(
    {"code": st.just(310) | numbers},
    optional={
        "extFields": send_fields | st.dictionaries(st.text(), st.text()) | st.dictionaries(st.text(), values) | values,
        "flag": numbers,
        "opaque": numbers,
        "version": numbers,
        "language": values,
        "remark": values,
        "other": values,
    },
)


def facts(decode: Any, frame: Frame) -> object:
    """All of a command, or that it is none."""
    try:
        command: Command = decode(frame)
        return (
            command.code, command.opaque, command.flag, command.version, command.language, command.remark,
            dict(command.fields), command.data, command.form,
        )  # fmt: skip
    except BadFrame:
        return NO_FRAME


def check_agreement(frame: Frame) -> None:
    expected, found = facts(decode_command, frame), facts(decode_fast, frame)
    assert expected in (found, NO_FRAME)


@given(headers, st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans())
def test_both_decoders_agree_on_any_json_header(header: dict[str, object], separators: Any, is_ascii: bool) -> None:
    text = json.dumps(header, separators=separators, ensure_ascii=is_ascii).encode(errors="surrogatepass")
    check_agreement((JSON_FORM, text, b"body"))


@given(st.sampled_from([JSON_FORM, BINARY_FORM]), st.binary(max_size=200))
def test_both_decoders_agree_on_any_bytes(form: int, header: bytes) -> None:
    check_agreement((form, header, b""))


def compare(seed: int, count: int) -> int:
    """Decode so many spoilt requests both ways; how many were frames at all."""
    hostile, taken = Hostile(f"headers-{seed}"), 0
    for number in range(count):
        code = CODES[number % len(CODES)] if number % 3 else 310
        data = hostile.damaged(code) if number % 2 else hostile.frame(code)
        try:
            frames, _ = split_frames(data)
        except BadFrame:
            continue
        for frame in frames:
            taken += 1
            check_agreement(frame)
    return taken


def test_both_decoders_agree_on_spoilt_requests() -> None:
    assert compare(1, CASES) > CASES // 3


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_both_decoders_agree_on_many_more_spoilt_requests() -> None:
    assert compare(2, MANY_CASES) > MANY_CASES // 3
