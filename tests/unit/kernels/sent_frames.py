"""SENDs for the tests of kernels: as clients sent them, spoilt ones, and what plain code makes of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from embermq.broker.intake import Born, Intake, short_fields
from embermq.broker.parking import split_timer
from embermq.errors import BadFrame
from embermq.format.command import ONEWAY, Command, decode_command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, Frame, encode_frame, split_frames
from embermq.format.record import DraftFields
from embermq.kernels import send_rows as column
from embermq.kernels.commands import decode_command as decode_fast
from embermq.kernels.memory import address_of
from embermq.kernels.send_rows import SendRows
from embermq.kernels.sends import Parsed, SendLimits, parse_into
from embermq.model.properties import TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS

WIRE: Final = Path(__file__).parents[2] / "golden" / "data" / "wire"
SEND_CODES: Final = (10, 310, 320)
BATCH_CODE: Final = 320

# A sweep of so many random cases by default, and of a million with --all.
CASES: Final = [pytest.param(3_000), pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]

FULL_NAMES: Final = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
    "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode",
    "l": "maxReconsumeTimes", "m": "batch",
}  # fmt: skip

# What is put into headers, to hurt.
PIECES: Final = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\t", b"\n", b"\r", b"\x0b", b"\0", b"\x1f", b"\x7f"),
    *(b"\\u0001", b"\\u0002", b"\\u0000", b"\\u001F", b"\\uD83D\\uDE00", b"\\ud83d", b"\\ude00", b"\\ud83d\\u0041"),
    *(b"\\ud83d\\ue000", b"\\ud83d\\udbff", b"\\uDBFF\\uDFFF", b"\\ue000"),
    *(b"\\n", b"\\/", b"\\\\", b'\\"', b"\\b", b"\\f", b"\\r", b"\\t", b"\\x41", b"\\u12", b"\\u00zz", b"\\U0001"),
    *("é".encode(), "中".encode(), "😀".encode(), b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\x80"),
    *(b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xc3", b"\xe4\xb8", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
    *(b"null", b"true", b"false", b"NaN", b"Infinity", b"-Infinity", b"1.0", b"1e5", b"-0", b"00", b"+1", b"0x1"),
    *(b"-1", b"2147483647", b"2147483648", b"-2147483648", b"-2147483649", b"9223372036854775807", b"1_0"),
    *(b"9223372036854775808", b"99999999999999999999", b"9" * 400, "٣".encode(), b" 7", b"0", b"1", b"10", b"310"),
    *(b"DELAY", b"TIMER_", b"TRAN_MSG", b"POP_CK", b"INNER_", b"REPLY_TO_CLIENT", b"__RMQ.TRANSIENT.", b"UNIQ_KEY"),
    *(b"DELA", b"Y", b"_", b"__", b"TIMER", b"REPLY_TO_", b"REPLY_TO_CLIEN", b"__RMQ.TRANSIENT", b"TRAN_", b"POP_"),
    *(b"TIMER_DELAY_SEC\\u00019\\u0002", b"TIMER_DELAY_MS\\u00019\\u0002"),
    *(b"TIMER_DELIVER_MS\\u00019\\u0002", b"TRAN_MSG\\u0001true\\u0002", b"PGROUP\\u0001g\\u0002", b"PGROUP", b"REAL_"),
    *(b"UNIQ_KEY\\u0001", b"UNIQ_KEY\\u0001x\\u0002", b"XUNIQ_KEY\\u0001y\\u0002", b"UNIQ_KEY\\u0001\\u0002"),
    *(b'"code":310,', b'"code":10,', b'"code":320,', b'"flag":2,', b'"opaque":7,', b'"b":"x",', b'"i":"",'),
    *(b"320", b'"e":"1",', b'"j":"0",', b'"m":"true",', b'"m":"false",', b'"extFields":null,', b'"extFields":{},'),
    *(b'"remark":null,', b'"version":"1",', b'"x":[[[]]],', b'"x":{"y":{}},', b'"x":1.5,', b'"\\u0062":"z",'),
    *(b'"language":7,', b'"remark":"r",', b"[" * 999),
)  # fmt: skip


class Row(NamedTuple):
    """A SEND, as both sides understand it."""

    opaque: int
    oneway: int
    form: int
    topic: bytes
    queue: int
    sys_flag: int
    born_time: int
    flag: int
    properties: bytes
    unique: bytes
    body: bytes
    is_batch: bool
    asked: bytes | int | str | None = None  # the producer group of a half message; else a time or a delay


class EveryTopic(dict[str, tuple[bytes, int]]):
    """Topics that plain messages may go to: all. Which ones do is not a kernel's question, nor how many queues."""

    def __missing__(self, name: str) -> tuple[bytes, int]:
        return name.encode(), 2**31


class PlainCode:
    """What decoder and intake make of a frame."""

    def __init__(self, intake: Intake) -> None:
        intake.known = EveryTopic()
        self._intake = intake
        self._suffix = intake.suffix.encode()
        self.limits = SendLimits(body_size=intake.max_body, properties_size=intake.max_properties - len(self._suffix))

    def read(self, frame: Frame) -> Row | None:
        """The frame as a row; None if it is refused, or not plain."""
        rows = [self._read(frame, decode) for decode in (decode_command, decode_fast)]
        assert rows[0] == rows[1], "two decoders, two opinions"
        return rows[0]

    def _read(self, frame: Frame, decode: Callable[[Frame], Command]) -> Row | None:
        try:
            request = decode(frame)
        except BadFrame:
            return None
        if request.code not in SEND_CODES or request.flag not in (0, ONEWAY):
            return None
        is_batch = request.code == BATCH_CODE
        if is_batch:  # what its messages are is not asked here; all else is as if it were one
            if request.fields.get("m") != "true":
                return None
            fields = {**request.fields, "m": "false"}
            request = Command(310, fields, request.body, request.opaque, request.flag, form=request.form)
        found, asked = self._intake.plain(request, Born(b"host", 0, 0)), None
        if found is None:
            found, asked = self._read_asking(request)
        if found is None:
            return None
        (topic, queue, body, _, flag, sys_flag, born_time, *_), _, unique = found
        properties = short_fields(request)["i"].encode()
        oneway = request.flag // ONEWAY
        return Row(
            request.opaque, oneway, request.form, bytes(topic), queue, sys_flag, born_time, flag, properties,
            unique.encode(), bytes(body), is_batch, asked,
        )  # fmt: skip

    def _read_asking(self, request: Command) -> tuple[tuple[DraftFields, int, str] | None, bytes | int | str | None]:
        """The same for a message that begins a transaction, or that names when it is to be delivered."""
        half = self._intake.half(request, Born(b"host", 0, 0))
        if half is not None:
            draft, queue, unique, sent = half
            return ((sent.topic.encode(), sent.queue, *draft[2:]), queue, unique), sent.group.encode()
        split = split_timer(short_fields(request).get("i", ""))
        if split is None or not split.value.isdecimal():
            return None, None
        number = int(split.value)
        asked = {TIMER_DELIVER_MS: number, TIMER_DELAY_MS: f"{number} ms", TIMER_DELAY_SEC: f"{number}000 ms"}
        return self._intake.plain(request, Born(b"host", 0, 0), split.rest), asked[split.name]


class Reader:
    """What the kernel makes of bytes, with memory of its own."""

    def __init__(self, capacity: int = 64, scratch_size: int = 1 << 18) -> None:
        self.into = SendRows(capacity, scratch_size)

    def read(self, data: bytes, limits: SendLimits) -> tuple[list[Row], Parsed]:
        got = parse_into(self.into, address_of(data) if data else 0, len(data), limits)
        return [self.row(number, data) for number in range(got.rows)], got

    def row(self, number: int, data: bytes) -> Row:
        row = self.into.rows[number].tolist()

        def part(memory: Any, at: int) -> bytes:
            begin, size = row[at], row[at + 1]
            assert begin >= 0 and size >= 0 and begin + size <= len(memory)
            return bytes(memory[begin : begin + size])

        scratch = self.into.scratch
        return Row(
            row[column.OPAQUE], row[column.ONEWAY], row[column.FORM], part(data, column.TOPIC_AT), row[column.QUEUE],
            row[column.SYS_FLAG], row[column.BORN_TIME], row[column.FLAG], part(scratch, column.PROPERTIES_AT),
            part(scratch, column.UNIQUE_AT), part(data, column.BODY_AT), row[column.DRAFTS] == 0,
            self._asked(row, lambda: part(scratch, column.ASKED)),
        )  # fmt: skip

    @staticmethod
    def _asked(row: Sequence[int], group: Callable[[], bytes]) -> bytes | int | str | None:
        match row[column.ASKS]:
            case column.ASKS_NOTHING:
                return None
            case column.ASKS_TIME:
                return row[column.ASKED]
            case column.ASKS_DELAY:
                return f"{row[column.ASKED]} ms"
        return group()


@cache
def golden_frames() -> Sequence[bytes]:
    """Every frame that RocketMQ's clients and servers sent while they were recorded."""
    found = []
    for path in sorted(WIRE.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            text = json.loads(line).get("frame_hex")
            if text:
                found.append(bytes.fromhex(text))
    return found


@cache
def golden_sends() -> Sequence[Command]:
    """The SENDs among them."""
    commands = []
    for data in golden_frames():
        try:
            frames, _ = split_frames(data)
            commands += [decode_command(frame) for frame in frames]
        except BadFrame:
            continue  # the protocol between brokers has frames of its own
    sends = [command for command in commands if command.code in SEND_CODES and not command.is_answer]
    assert len(sends) > 20
    return sends


@cache
def usual_sends() -> Sequence[Command]:
    """Those that do not ask for a delay or a transaction."""
    return [command for command in golden_sends() if not {"DELAY", "TRAN_MSG"} & {*_property_names(command)}]


def _property_names(command: Command) -> list[str]:
    return [pair.split("\x01")[0] for pair in command.fields.get("i", "").split("\x02")]


def with_full_names(command: Command) -> Command:
    """The same as request 10."""
    fields = {FULL_NAMES.get(name, name): value for name, value in command.fields.items()}
    return Command(
        10, fields, command.body, command.opaque, command.flag, language="GO", version=317, form=command.form
    )


def send(unique: str = "AC1500010000", form: int = JSON_FORM, *, flag: int = 0, **fields: str) -> Command:
    """A plain SEND."""
    texts = {
        "a": "PID_test", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
        "i": f"KEYS\x01k1\x02UNIQ_KEY\x01{unique}\x02WAIT\x01true\x02", "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    return Command(310, texts | fields, b"body", 5, flag, language="JAVA", form=form)


def json_frame(members: str | bytes, body: bytes = b"body") -> bytes:
    """A frame with this header."""
    header = members.encode(errors="surrogatepass") if isinstance(members, str) else members
    return encode_frame(JSON_FORM, header, len(body)) + body


class Spoiler:
    """Makes SENDs that nobody should send, from a seed."""

    def __init__(self, seed: object) -> None:
        self.chance = Random(f"sends-{seed}")

    def frame(self) -> bytes:
        """One frame, whole or not, whose header is mostly almost right."""
        chance = self.chance
        command = chance.choice(usual_sends() if chance.random() < 0.9 else golden_sends())
        if chance.random() < 0.3:
            command = with_full_names(command)
        body = command.data[:100] if chance.random() < 0.97 else b""
        if chance.random() < 0.3:
            header = bytearray(encode_command(self._of_form(command, BINARY_FORM))[8:])
            del header[len(header) - len(command.data) :]
            form = BINARY_FORM
        else:
            header, form = bytearray(self._json(command)), JSON_FORM
        for _ in range(chance.choice((0, 1, 1, 1, 1, 2, 4))):
            self._spoil(header)
        frame = encode_frame(form, bytes(header[:60_000]), len(body)) + body
        return self._damaged(frame) if chance.random() < 0.05 else frame

    def _of_form(self, command: Command, form: int) -> Command:
        return Command(command.code, command.fields, command.body, command.opaque, command.flag, form=form)

    def _json(self, command: Command) -> bytes:
        """The header as one of many clients might write it."""
        chance = self.chance
        fields = list(command.fields.items())
        members: list[tuple[str, object]] = [
            ("code", command.code), ("extFields", dict(fields)), ("flag", command.flag), ("language", "JAVA"),
            ("opaque", command.opaque), ("version", command.version), ("serializeTypeCurrentRPC", "JSON"),
        ]  # fmt: skip
        if chance.random() < 0.2:
            chance.shuffle(fields)
            members[1] = ("extFields", dict(fields))
            chance.shuffle(members)
        separators = chance.choice(((",", ":"), (",", ":"), (" ,\t", "\n: "), (",\r\n", ":")))
        text = json.dumps(dict(members), separators=separators, ensure_ascii=chance.random() < 0.3)
        return text.encode(errors="surrogatepass")

    def _spoil(self, header: bytearray) -> None:
        chance = self.chance
        at = chance.randrange(len(header) + 1)
        match chance.randrange(6):
            case 0 if header:
                header[at % len(header)] = chance.randrange(256)
            case 1:
                del header[at : at + chance.choice((1, 1, 2, 10))]
            case 2:
                size = chance.choice((1, 4, 20))
                other = chance.randrange(len(header) + 1)
                header[at:at] = header[other : other + size]
            case 3:
                piece = chance.choice(PIECES)
                header[at : at + len(piece)] = piece
            case _:
                header[at:at] = chance.choice(PIECES)

    def _damaged(self, frame: bytes) -> bytes:
        data = bytearray(frame)
        if self.chance.random() < 0.5:
            data[self.chance.randrange(8)] = self.chance.choice((0, 1, 2, 127, 128, 255, self.chance.randrange(256)))
        return bytes(data[: self.chance.randrange(len(data) + 1)] if self.chance.random() < 0.5 else data)
