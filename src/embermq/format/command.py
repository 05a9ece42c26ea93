"""Commands: requests and answers, with their headers in either form.

JSON     {"code":…,"extFields":{…},"flag":…,"language":…,"opaque":…,"remark":…,"version":…}
binary   code 2   language 1   version 2   opaque 4   flag 4
         remark size 4, remark   fields size 4, fields (key size 2, key, value size 4, value)

An answer repeats the opaque number of its request and has bit 0 of the flag set; bit 1 marks
a request that wants no answer. Field values are text in both forms.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Mapping
from typing import Final

from embermq.errors import BadFrame
from embermq.format.frame import BINARY_FORM, JSON_FORM, Frame, encode_frame

ANSWER: Final = 1
ONEWAY: Final = 2

VERSION: Final = 479  # RocketMQ 5.3.3, whose behaviour ours is
LANGUAGES: Final = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
)  # fmt: skip
_LANGUAGE_CODES: Final = {name: code for code, name in enumerate(LANGUAGES)}
_OTHER: Final = _LANGUAGE_CODES["OTHER"]
_OUR_LANGUAGE: Final = "PYTHON"

_FIXED: Final = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, remark size
_SIZE: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_I32: Final = 2**31
_WIDE_CODES: Final = (200050, 200051, 200052, 200053, 200054, 200055, 200056, 200151)
_NARROWED: Final = {code & 0xFFFF: code for code in _WIDE_CODES}  # a binary header has 16 bits for a code

_opaques = itertools.count(1)

Body = bytes | tuple[memoryview, ...]  # what lies in mapped memory is sent from there


class Command:
    """One request or answer. Not changed once it is made."""

    __slots__ = ("body", "code", "fields", "flag", "form", "language", "opaque", "remark", "version")

    def __init__(
        self,
        code: int,
        fields: Mapping[str, str],
        body: Body,
        opaque: int,
        flag: int = 0,
        remark: str | None = None,
        language: str = _OUR_LANGUAGE,
        version: int = VERSION,
        form: int = JSON_FORM,
    ) -> None:
        self.code = code
        self.fields = fields
        self.body = body
        self.opaque = opaque
        self.flag = flag
        self.remark = remark
        self.language = language
        self.version = version
        self.form = form

    @property
    def is_answer(self) -> bool:
        return bool(self.flag & ANSWER)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY)

    @property
    def data(self) -> bytes:
        """The body as one piece."""
        return self.body if isinstance(self.body, bytes) else b"".join(self.body)

    def __repr__(self) -> str:
        kind = "answer" if self.is_answer else "oneway" if self.is_oneway else "request"
        remark = f" {self.remark!r}" if self.remark else ""
        return (
            f"<{kind} {self.code} opaque={self.opaque} fields={dict(self.fields)}{remark} body={len(self.data)} bytes>"
        )


class EncodedAnswer(Command):
    """A plain JSON answer whose head is written already; its fields by name are read when they are asked for."""

    __slots__ = ("_header", "_whole", "head", "size")
    _whole: Command
    body: tuple[memoryview, ...]
    flag = ANSWER
    form = JSON_FORM

    def __init__(self, code: int, header: bytes, body: tuple[memoryview, ...], body_size: int, opaque: int) -> None:
        # Not Command's: nobody looks at the rest of what it would set.
        self.code = code
        self.body = body
        self.size = body_size
        self.opaque = opaque
        self.head = encode_frame(JSON_FORM, header, body_size)  # the frame up to its body
        self._header = header

    def whole(self) -> Command:
        """The same with all its parts."""
        try:
            return self._whole
        except AttributeError:
            self._whole = decode_command((JSON_FORM, self._header, b""))
            return self._whole

    fields = property(lambda self: self.whole().fields)
    remark = property(lambda self: self.whole().remark)
    language = property(lambda self: self.whole().language)
    version = property(lambda self: self.whole().version)


def make_request(
    code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", *, oneway: bool = False
) -> Command:
    """A request with a number of its own."""
    opaque = next(_opaques) & (_I32 - 1)
    return Command(code, fields or {}, body, opaque=opaque, flag=ONEWAY if oneway else 0)


def make_answer(
    request: Command,
    code: int = 0,
    fields: Mapping[str, str] | None = None,
    body: Body = b"",
    *,
    remark: str | None = None,
) -> Command:
    """The answer to `request`, in its form."""
    return Command(code, fields or {}, body, opaque=request.opaque, flag=ANSWER, remark=remark, form=request.form)


def decode_command(frame: Frame) -> Command:
    """The command of one frame. Raises BadFrame."""
    form, text, body = frame
    if form == BINARY_FORM:
        return _decode_binary(text, body)
    try:
        header = json.loads(text)
        get = header.get
        fields = get("extFields") or {}
        code, opaque, flag, version = header["code"], get("opaque", 0), get("flag", 0), get("version", 0)
        language, remark = get("language") or "OTHER", get("remark")
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        raise BadFrame(f"no JSON header: {error!r}") from error
    # Only types are checked: what the numbers mean is for those who use them.
    numbers = (code, opaque, flag, version)
    if not all(type(number) is int and -_I32 <= number < _I32 for number in numbers):
        raise BadFrame(f"code, opaque, flag and version are {numbers}; four 32-bit numbers are expected")
    if type(language) is not str or not (remark is None or type(remark) is str) or type(fields) is not dict:
        raise BadFrame("language and remark must be text, and extFields an object")
    try:
        "".join(fields.values())  # the quickest way to see that all of them are text
    except TypeError:
        fields = _as_texts(fields)
    return Command(code, fields, body, opaque, flag, remark, language, version)


def _as_texts(fields: Mapping[str, object]) -> dict[str, str]:
    """Fields as RocketMQ's own reader takes them: numbers and booleans for their text, and null for nothing."""
    texts = {}
    for name, value in fields.items():
        if isinstance(value, str):
            texts[name] = value
        elif isinstance(value, bool):
            texts[name] = "true" if value else "false"
        elif isinstance(value, int | float):
            texts[name] = str(value)
        elif value is not None:
            raise BadFrame(f"extFields.{name[:80]} is {type(value).__name__}; text is expected")
    return texts


def encode_head(command: Command, body_size: int) -> bytes:
    """The frame of `command` up to its body."""
    if isinstance(command, EncodedAnswer):
        return command.head
    header = _encode_json(command) if command.form == JSON_FORM else _encode_binary(command)
    return encode_frame(command.form, header, body_size)


def encode_command(command: Command) -> bytes:
    """The whole frame."""
    body = command.data
    return encode_head(command, len(body)) + body


def _encode_json(command: Command) -> bytes:
    header: dict[str, object] = {"code": command.code, "extFields": command.fields, "flag": command.flag}
    header["language"] = command.language
    header["opaque"] = command.opaque
    if command.remark is not None:
        header["remark"] = command.remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = command.version
    return json.dumps(header, separators=(",", ":")).encode()


def _encode_text(text: str) -> bytes:
    # An answer may quote half of a surrogate pair, which JSON can say and UTF-8 cannot.
    return text.encode(errors="replace")


def _encode_binary(command: Command) -> bytes:
    remark = _encode_text(command.remark or "")
    fields = b"".join(
        _SHORT.pack(len(key)) + key + _SIZE.pack(len(value)) + value
        for key, value in ((_encode_text(key), _encode_text(value)) for key, value in command.fields.items())
    )
    language = _LANGUAGE_CODES.get(command.language, _OTHER)
    code = (command.code + 0x8000) % 0x10000 - 0x8000
    fixed = _FIXED.pack(code, language, command.version, command.opaque, command.flag, len(remark))
    return fixed + remark + _SIZE.pack(len(fields)) + fields


def _decode_binary(header: bytes, body: bytes) -> Command:
    if len(header) < _FIXED.size + _SIZE.size:
        raise BadFrame(f"a binary header of {len(header)} bytes; {_FIXED.size + _SIZE.size} are the least")
    code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
    fields_at = _FIXED.size + remark_size
    if remark_size < 0 or fields_at + _SIZE.size > len(header):
        raise BadFrame(f"a remark of {remark_size} bytes in a header of {len(header)}")
    (fields_size,) = _SIZE.unpack_from(header, fields_at)
    begin = fields_at + _SIZE.size
    if fields_size < 0 or begin + fields_size > len(header):
        raise BadFrame(f"fields of {fields_size} bytes in a header of {len(header)}")
    try:
        remark = header[_FIXED.size : fields_at].decode() or None
        fields = _decode_fields(header, begin, begin + fields_size)
    except UnicodeDecodeError as error:
        raise BadFrame(f"a binary header that is not UTF-8: {error}") from error
    return Command(
        _NARROWED.get(code & 0xFFFF, code),
        fields,
        body,
        opaque=opaque,
        flag=flag,
        remark=remark,
        language=LANGUAGES[language] if language < len(LANGUAGES) else "OTHER",
        version=version,
        form=BINARY_FORM,
    )


def _decode_fields(header: bytes, at: int, end: int) -> dict[str, str]:
    """The fields; one without a name or a value counts as absent."""
    fields = {}
    while at < end:
        key, at = _take(header, at, end, _SHORT)
        value, at = _take(header, at, end, _SIZE)
        if key and value:
            fields[key.decode()] = value.decode()
    return fields


def _take(header: bytes, at: int, end: int, size_form: struct.Struct) -> tuple[bytes, int]:
    begin = at + size_form.size
    if begin > end:
        raise BadFrame("the fields of a binary header end in the middle of one")
    (size,) = size_form.unpack_from(header, at)
    if size < 0 or begin + size > end:
        raise BadFrame(f"a field of {size} bytes where {end - begin} are left")
    return header[begin : begin + size], begin + size
