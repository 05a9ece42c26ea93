"""Commands out of frames, faster than `format.command` can: with msgspec where it is installed.

Whatever msgspec does not take goes to the plain decoder, which tells what is wrong with it or takes
it all the same. A SEND is read into numbers at once, because most of what a broker gets is one; its
other fields are read only if somebody asks.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from embermq.format.command import Command
from embermq.format.command import decode_command as decode_plainly
from embermq.format.frame import JSON_FORM, Frame

try:
    import msgspec
except ImportError:
    msgspec = None  # type: ignore[assignment]

__all__ = ["SendCommand", "decode_command"]

_SEND: Final = b'{"code":310,'  # how RocketMQ's clients and ours begin the header of a SEND
_SEND_CODE: Final = 310
_NO_FIELDS: Final[dict[str, str]] = {}


class SendCommand(Command):
    """A SEND whose numbers are read already; its fields by name are read when they are asked for."""

    __slots__ = ("_frame", "_whole", "sent")
    _whole: Command
    code = _SEND_CODE
    form = JSON_FORM

    def __init__(self, frame: Frame, opaque: int, flag: int, sent: Any) -> None:
        # Not Command's: most of what it would set is never looked at.
        self._frame = frame
        self.body = frame[2]
        self.opaque = opaque
        self.flag = flag
        self.sent = sent  # b: topic, e: queue, f: sys flag, g: born time, h: flag, i: properties, j: retries, m: batch

    def whole(self) -> Command:
        """The same with all its parts."""
        try:
            return self._whole
        except AttributeError:
            self._whole = decode_plainly(self._frame)
            return self._whole

    fields = property(lambda self: self.whole().fields)
    remark = property(lambda self: self.whole().remark)
    language = property(lambda self: self.whole().language)
    version = property(lambda self: self.whole().version)


if msgspec is None:

    def decode_command(frame: Frame) -> Command:
        """The command of one frame. Raises BadFrame."""
        return decode_plainly(frame)

else:
    _I32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]

    class _Header(msgspec.Struct, gc=False):
        code: _I32
        extFields: dict[str, str] | None = None
        flag: _I32 = 0
        language: str | None = None
        opaque: _I32 = 0
        remark: str | None = None
        version: _I32 = 0

    class _Sent(msgspec.Struct, gc=False):
        b: str
        e: int
        f: int
        g: int
        h: int
        i: str
        j: int = 0
        m: bool = False

    class _SendHeader(msgspec.Struct, gc=False):
        extFields: _Sent
        opaque: _I32
        flag: _I32 = 0

    _read_header = msgspec.json.Decoder(_Header).decode
    _read_send = msgspec.json.Decoder(_SendHeader, strict=False).decode  # numbers stand there as text
    _NotSo = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

    def decode_command(frame: Frame) -> Command:
        """The command of one frame. Raises BadFrame."""
        form, text, body = frame
        if form != JSON_FORM:
            return decode_plainly(frame)
        try:
            if text.startswith(_SEND):
                send = _read_send(text)
                return SendCommand(frame, send.opaque, send.flag, send.extFields)
            header = _read_header(text)
        except _NotSo:
            return decode_plainly(frame)
        return Command(
            header.code, header.extFields or _NO_FIELDS, body, header.opaque, header.flag, header.remark,
            header.language or "OTHER", header.version,
        )  # fmt: skip
