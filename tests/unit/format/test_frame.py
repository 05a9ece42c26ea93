"""Frames and commands: bounds first, then meaning."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import BadFrame
from embermq.format.command import (
    ANSWER,
    LANGUAGES,
    Command,
    decode_command,
    encode_command,
    make_answer,
    make_request,
)
from embermq.format.frame import (
    BINARY_FORM,
    JSON_FORM,
    MAX_FRAME_SIZE,
    FrameLimits,
    encode_frame,
    split_frames,
    whole_size,
)
from embermq.kernels import commands

DECODERS = (decode_command, commands.decode_command)  # the plain one, and the fast one

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
FILLED = TEXTS.filter(bool)
I32 = st.integers(-(2**31), 2**31 - 1)
COMMANDS = st.builds(
    Command,
    st.integers(-(2**15), 2**15 - 1),
    st.dictionaries(FILLED, FILLED, max_size=5),
    st.binary(max_size=50),
    I32,
    I32,
    st.none() | FILLED,
    st.sampled_from(LANGUAGES),
    st.integers(-(2**15), 2**15 - 1),
    st.sampled_from([JSON_FORM, BINARY_FORM]),
)


def parts(command: Command) -> tuple[object, ...]:
    return tuple(getattr(command, name) for name in Command.__slots__)


@given(st.lists(COMMANDS, max_size=4), st.integers(0, 40))
def test_commands_come_back_whole_however_they_are_cut(sent: list[Command], left_out: int) -> None:
    frames = [encode_command(command) for command in sent]
    data = b"".join(frames)
    data = data[: max(0, len(data) - left_out)]
    found, taken = split_frames(data)
    whole = sum(1 for end in [len(b"".join(frames[: n + 1])) for n in range(len(frames))] if end <= len(data))
    assert taken == len(b"".join(frames[:whole]))
    for decode in DECODERS:
        assert [parts(decode(frame)) for frame in found] == [parts(each) for each in sent[:whole]]
    if taken < len(data):
        rest = data[taken:]
        assert whole_size(rest) > len(rest)
        if len(rest) >= 8:
            assert whole_size(rest) == len(frames[whole])


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    try:
        frames, taken = split_frames(data)
    except BadFrame:
        return
    assert taken <= len(data) and sum(8 + len(header) + len(body) for _, header, body in frames) == taken


@given(st.sampled_from([JSON_FORM, BINARY_FORM]), st.binary(max_size=80))
def test_any_header_is_a_command_or_refused(form: int, header: bytes) -> None:
    for decode in DECODERS:
        try:
            command = decode((form, header, b""))
        except BadFrame:
            continue
        assert all(type(value) is str for value in command.fields.values())


@pytest.mark.parametrize(
    ("size", "form_and_header", "reason"),
    [
        (MAX_FRAME_SIZE - 3, 0, "a frame of 16777213 bytes"),
        (2**31 - 1, 0, "a frame of 2147483647 bytes"),
        (3, 0, "a frame of 3 bytes"),
        (-1, 0, "a frame of -1 bytes"),
        (100, 97, "a header of 97 bytes in a frame of 100"),
        (100_000, 70_000, "a header of 70000 bytes"),
        (100, 2 << 24 | 10, "form 2"),
        (100, -1, "a header of 16777215"),
    ],
)
def test_sizes_that_lie_are_refused_before_the_rest_has_come(size: int, form_and_header: int, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        split_frames(struct.pack(">ii", size, form_and_header))


def test_the_largest_frame_is_taken() -> None:
    limits = FrameLimits(frame_size=100, header_size=50)
    frame = encode_frame(JSON_FORM, b"{}", 90) + bytes(90)
    assert len(frame) == 100
    assert split_frames(frame, limits) == ([(JSON_FORM, b"{}", bytes(90))], 100)
    with pytest.raises(BadFrame):
        split_frames(encode_frame(JSON_FORM, b"{}", 91), limits)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"7",
        b"null",
        b"{",
        b"{}",
        b'{"code":"10"}',
        b'{"code":1.5}',
        b'{"code":true}',
        b'{"code":4294967296}',
        b'{"code":10,"opaque":null}',
        b'{"code":10,"flag":[]}',
        b'{"code":10,"language":7}',
        b'{"code":10,"remark":{}}',
        b'{"code":10,"extFields":[1]}',
        b'{"code":10,"extFields":"x"}',
        b'{"code":10,"extFields":{"a":[]}}',
        b'{"code":10,"extFields":{"a":{}}}',
        b'{"code":10}\xff',
        b'{"code":' + b"[" * 20_000,
    ],
)
def test_json_headers_that_make_no_sense_are_refused(header: bytes) -> None:
    for decode in DECODERS:
        with pytest.raises(BadFrame):
            decode((JSON_FORM, header, b""))


def test_numbers_and_booleans_in_fields_count_as_their_text() -> None:
    header = b'{"code":10,"extFields":{"a":1,"b":true,"c":null,"d":"x"},"language":null}'
    command = decode_command((JSON_FORM, header, b""))
    assert command.fields == {"a": "1", "b": "true", "d": "x"}
    assert command.language == "OTHER"


@pytest.mark.parametrize("missing", [b'"extFields":null,', b'"extFields":{},', b""])
def test_fields_may_be_missing(missing: bytes) -> None:
    command = decode_command((JSON_FORM, b"{" + missing + b'"code":10}', b""))
    assert command.fields == {}


def test_an_answer_repeats_the_number_and_the_form_of_its_request() -> None:
    request = Command(10, {}, b"", 77, form=BINARY_FORM)
    answer = make_answer(request, 17, {"a": "b"}, remark="no")
    assert (answer.opaque, answer.form, answer.flag, answer.code) == (77, BINARY_FORM, ANSWER, 17)
    assert make_request(10).opaque != make_request(10).opaque


def test_wide_codes_that_a_binary_header_cuts_are_known_again() -> None:
    (frame,), _ = split_frames(encode_command(Command(200050, {}, b"", 1, form=BINARY_FORM)))
    assert decode_command(frame).code == 200050
