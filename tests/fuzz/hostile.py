"""Requests that nobody should send: real ones, spoilt, and others made up of what is likely to hurt.

What RocketMQ's own clients said (the golden recordings) is the seed. Every case is a frame, as it would come over a
socket, and follows from the seed of the generator alone.
"""

from __future__ import annotations

import json
import random
import re
import string
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from embermq.format.command import Command, decode_command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, encode_frame, split_frames
from embermq.model.codes import RequestCode
from tests.fuzz.scene import SOUND

ROOT: Final = Path(__file__).parents[2]
WIRE: Final = ROOT / "tests" / "golden" / "data" / "wire"
UNKNOWN_CODES: Final = (-1, 0, 1, 9, 13, 99, 999, 32_767, -32_768, 200_049, 200_057, 2**31 - 1, -(2**31))
ACCESS_CODES: Final = (3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009, 3010)
CODES: Final = (*map(int, RequestCode), *UNKNOWN_CODES, *ACCESS_CODES)

ONEWAY: Final = 2
LONG: Final = 50_000  # with the rest of its header below what a frame may have
TOO_LONG: Final = 65_536
DEEP: Final = 100_000
BOMB_SIZE: Final = 32 * 1024 * 1024

# Names that a broker knows, is shy of, or might take for a path.
NAMES: Final = (
    "orders", "order", "billing", "TBW102", "broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_HALF_TOPIC", "%RETRY%billing", "%DLQ%billing", "%RETRY%", "%DLQ%", "%RETRY%%RETRY%billing",
    "TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "..", ".", "../../../outside", "/tmp/outside", "orders/../../outside",
    "a\0b", "C:\\outside", "~", "$HOME", "x" * 127, "x" * 128, "x" * 255, "x" * 256, "|", "%", "-", "{}", "[]", "null",
    "*", "tag || ", "a||b", "||", "127.0.0.1:10911", "[::1]:10911", "192.0.2.1:99999", ":", "ORDER_TOPIC_CONFIG",
)  # fmt: skip
NUMBERS: Final = (
    "0", "-0", "1", "-1", "2", "7", "31", "127", "65536", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "4294967295", "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "9" * 30, "9" * 4301, "1.5", "1e9",
    "-1e400", "NaN", "Infinity", "0x10", "0b1", "1_000", " 7 ", "+7", "٣", "７", "²", "1700000000000", "1700000000",
)  # fmt: skip
TEXTS: Final = (
    "", " ", "\t\r\n", "\0", "\x01", "\x02", "a\x01b", "a\x01b\x02", "\x01\x02\x01\x02", "UNIQ_KEY\x01\x02",
    "UNIQ_KEY\x01id\x02", "DELAY\x013\x02", "DELAY\x01-9\x02UNIQ_KEY\x01x\x02", "DELAY\x0199999999999999\x02",
    "TRAN_MSG\x01true\x02", "TIMER_DELIVER_MS\x01-1\x02", "POP_CK\x011 2 3\x02", "REPLY_TO_CLIENT\x01nobody\x02",
    "KEYS\x01" + "k " * 500 + "\x02", "true", "false", "TRUE", "yes", "SINGLE_TAG", "SQL92", "TAG", "UPPER", "LOWER",
    "😀" * 30, "e\u0301", "\u202e\u0000", "\ud800", "a\udfffb", "\ufeff", "\uffff", "%s%d%n", "{0}{name}", "${jndi:x}",
    "'; DROP TABLE x", "+message.type=DELAY", "+queue.type=BatchCQ", "+cleanup.policy=COMPACTION", "-message.type",
    "+message.type=MIXED,,=,+=", '{"counter":1,"timestamp":2}', '{"counter":', "[" * 2000, "x" * LONG,
    "é" * (LONG // 6), "x" * TOO_LONG,
)  # fmt: skip
WRONG_TYPES: Final[tuple[object, ...]] = (None, True, False, 0, -1, 2**70, 1.5, [], {}, ["a"], {"a": {"b": []}})
JSON_VALUES: Final[tuple[object, ...]] = (
    *WRONG_TYPES, "", "0", "-1", "x", "orders", "billing", "CLUSTERING", "BROADCASTING", "CONSUME_PASSIVELY", 2**31,
    2**63, -(2**63) - 1, 10**400, "\ud800", "../outside", [None], [[]], [{}], {"": ""}, {"0": 0}, {"$ref": "$"},
    {"$ref": ".."}, "x" * 70_000, list(range(2000)),
)  # fmt: skip


class Template(NamedTuple):
    """A sound request."""

    fields: dict[str, str]
    body: bytes
    version: int


@cache
def templates() -> dict[int, list[Template]]:
    """The recorded requests by code, each kind of header once, and those that no recording has."""
    found: dict[int, dict[tuple[object, ...], Template]] = {}
    for path in sorted(WIRE.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            if entry.get("kind") == "request":
                (frame,), _ = split_frames(bytes.fromhex(entry["frame_hex"]))
                command = decode_command(frame)
                kind = (*sorted(command.fields), len(command.data).bit_length())
                template = Template(dict(command.fields), command.data, command.version)
                found.setdefault(command.code, {}).setdefault(kind, template)
    every = {code: list(kinds.values()) for code, kinds in found.items()}
    for code, requests in SOUND.items():
        every.setdefault(code, []).extend(Template(fields, body, 479) for fields, body in requests)
    return every


@cache
def field_names() -> list[str]:
    """Every field of a request that the sources read."""
    pattern = re.compile(r"""(?:fields|ask|asked)(?:\.get\(|\[|, )["'](\w+)["']""")
    sources = [*(ROOT / "src" / "embermq").rglob("*.py")]
    names = {name for path in sources for name in pattern.findall(path.read_text())}
    assert {"topic", "queueId", "consumerGroup", "brokerAddr", "b", "e"} <= names
    return sorted(names)


@cache
def golden_bodies() -> list[bytes]:
    return sorted({template.body for kinds in templates().values() for template in kinds if template.body})


class Hostile:
    """Makes spoilt requests, one after the other, from a seed."""

    def __init__(self, seed: object) -> None:
        self.chance = random.Random(f"hostile-{seed}")
        self._opaque = 0

    def frame(self, code: int) -> bytes:
        """One frame with a request of this code."""
        chance = self.chance
        known = templates().get(code)
        template = chance.choice(known) if known and chance.random() < 0.8 else Template({}, b"", 479)
        fields: dict[str, object] = dict(template.fields)
        for _ in range(chance.choice((0, 1, 1, 2, 4))):
            self._spoil_fields(fields)
        if not template.fields and chance.random() < 0.7:
            names = chance.sample(field_names(), k=chance.randrange(1, 12))
            fields |= {name: self._value(name) for name in names}
        body = self._body(template.body)
        if fields.get("bodyCrc32") and chance.random() < 0.9:
            fields["bodyCrc32"] = str(_checksum(body))
        if fields.get("crc") and chance.random() < 0.9:
            fields["crc"] = str(zlib.crc32(body))
        return self._encode(code, fields, body, version=chance.choice((template.version, 0, 120, 479, 2**31 - 1)))

    def damaged(self, code: int) -> bytes:
        """The same with bytes of the frame itself changed, or cut off."""
        frame = bytearray(self.frame(code))
        for _ in range(self.chance.choice((1, 1, 2, 8))):
            frame[self.chance.randrange(min(len(frame), 400))] = self.chance.randrange(256)
        return bytes(frame[: self.chance.randrange(len(frame))] if self.chance.random() < 0.2 else frame)

    def _spoil_fields(self, fields: dict[str, object]) -> None:
        chance = self.chance
        name = chance.choice(sorted(fields) or field_names())
        match chance.randrange(5):
            case 0:
                fields.pop(name, None)
            case 1:
                fields[name] = ""
            case 2 if chance.random() < 0.3:
                fields[name] = chance.choice(WRONG_TYPES)
            case 3:
                other = chance.choice(field_names())
                fields[other] = self._value(other)
            case _:
                fields[name] = self._value(name)

    def _value(self, name: str) -> str:
        """Mostly of the right kind, as far as a name tells, so that it gets past the first check."""
        chance = self.chance
        if chance.random() < 0.5:
            is_name = re.search("topic|group|name|addr|client|cluster|^[abcn]$", name, re.IGNORECASE)
            return chance.choice(NAMES if is_name else NUMBERS)
        pool: tuple[str, ...] = chance.choice((NAMES, NUMBERS, TEXTS))
        return chance.choice(pool) if chance.random() < 0.95 else self._garbage_text()

    def _garbage_text(self) -> str:
        size = self.chance.choice((1, 3, 20, 300))
        alphabet = string.printable + "\x00\x01\x02éß中😀\u2028"
        return "".join(self.chance.choices(alphabet, k=size))

    def _body(self, body: bytes) -> bytes:
        chance = self.chance
        kinds: tuple[tuple[int, Callable[[bytes], bytes]], ...] = (
            (30, lambda data: data),
            (25, self._flipped),
            (15, self._cut),
            (20, self._other_json),
            (4, lambda data: chance.choice(golden_bodies())),
            (4, lambda data: chance.randbytes(chance.choice((1, 4, 16, 100, 5000)))),
            (1, lambda data: _deep(chance.randrange(4))),
            (1, lambda data: _bombs()[chance.randrange(2)]),
            (4, lambda data: b""),
        )
        (make,) = chance.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
        return make(body)

    def _flipped(self, body: bytes) -> bytes:
        data = bytearray(body or self.chance.choice(golden_bodies()))
        for _ in range(self.chance.choice((1, 1, 1, 3, 10))):
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        return bytes(data)

    def _cut(self, body: bytes) -> bytes:
        data = body or self.chance.choice(golden_bodies())
        return data[: self.chance.randrange(len(data) + 1)]

    def _other_json(self, body: bytes) -> bytes:
        """A body that is JSON, with one of its values exchanged, dropped or doubled."""
        try:
            value = json.loads(body)
        except ValueError:
            value = self.chance.choice(JSON_VALUES)
        return json.dumps(self._spoilt_json(value), ensure_ascii=self.chance.random() < 0.9).encode(
            errors="surrogatepass"
        )

    def _spoilt_json(self, value: object) -> object:
        chance = self.chance
        if isinstance(value, dict) and value and chance.random() < 0.8:
            key = chance.choice(list(value))
            changed = {**value, key: self._spoilt_json(value[key])}
            if chance.random() < 0.15:
                del changed[key]
            return changed
        if isinstance(value, list) and value and chance.random() < 0.8:
            at = chance.randrange(len(value))
            return [*value[:at], self._spoilt_json(value[at]), *value[at + chance.randrange(2) :]]
        return chance.choice(JSON_VALUES)

    def _encode(self, code: int, fields: dict[str, object], body: bytes, *, version: int) -> bytes:
        self._opaque += 1
        flag = ONEWAY if self.chance.random() < 0.1 else 0
        texts = {name: value for name, value in fields.items() if isinstance(value, str) and _is_text(value)}
        if len(texts) == len(fields) and -(2**15) <= code < 2**15 and self.chance.random() < 0.1:
            command = Command(
                code, texts, body, self._opaque, flag, language="JAVA", version=version % 2**15, form=BINARY_FORM
            )
            return encode_command(command)
        header = {"code": code, "extFields": fields, "flag": flag, "opaque": self._opaque, "version": version}
        header["language"] = self.chance.choice(("JAVA", "GO", "KLINGON"))
        # Written as clients do, or otherwise: there are short cuts for what most clients send.
        separators = (",", ":") if self.chance.random() < 0.9 else None
        data = json.dumps(header, separators=separators, ensure_ascii=self.chance.random() < 0.5).encode(
            errors="surrogatepass"
        )
        return encode_frame(JSON_FORM, data, len(body)) + body


def _is_text(value: str) -> bool:
    return value.encode(errors="replace").decode() == value


def _checksum(body: bytes) -> int:
    return zlib.crc32(body) & 0x7FFF_FFFF


def _deep(kind: int) -> bytes:
    """JSON that is nested beyond all reason."""
    return (b"[" * DEEP, b'{"a":' * DEEP, b"[" * DEEP + b"]" * DEEP, b"[{" * DEEP)[kind]


@cache
def _bombs() -> tuple[bytes, bytes]:
    """Little that unpacks to a lot."""
    return zlib.compress(bytes(BOMB_SIZE), 9), zlib.compress(b"[" * BOMB_SIZE, 9)
