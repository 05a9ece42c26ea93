"""One connection: frames in both directions, requests of both sides.

    bytes ─→ frames ─→ commands ─┬─ answers go to whoever called
      │                          └─ requests, all of one read together, go to the receiver
      └─ `take`, where there is one, has the first look, and takes whole frames at the beginning

Whoever takes a request either answers it or lets it wait; `owe` and `settle` count those that
wait for us. Beyond a limit, or while the peer does not take our answers, nothing is read.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from embermq.errors import BadFrame, CallTimeout, ConnectionLost
from embermq.format.command import ONEWAY, Command, encode_head
from embermq.format.frame import MAX_FRAME_SIZE, FrameLimits, split_frames, whole_size
from embermq.kernels.commands import decode_command
from embermq.model.codes import RequestCode
from embermq.model.message import Host
from embermq.net.gathered_write import plain_descriptor, write_parts, write_places
from embermq.net.receiving import LARGE_FRAME, READ_SIZE, ReceiveBuffer
from embermq.net.socket_reader import SocketReader, is_for_later

log = logging.getLogger(__name__)

Receiver = Callable[["Connection", Sequence[Command]], None]
Take = Callable[["Connection", int, int], int]  # of the receive buffer, from here to there: how many bytes it took


class ConnectionLimits(NamedTuple):
    """What one connection may take of us."""

    frame: FrameLimits = FrameLimits()
    in_flight: int = 1024  # requests that are not answered yet, long polls aside
    idle_s: float = 120.0
    write_high: int = 4 * 1024 * 1024  # bytes of answers that wait for the peer; beyond it, nothing new is answered
    write_limit: int = 64 * 1024 * 1024  # beyond it, which takes answers that came due all at once, it is closed


DEFAULT_LIMITS = ConnectionLimits()

# How many requests are handed on at a time. Those with a body bring something and have small answers, and so do some
# without one; the others ask for something, and what they get is many times as large.
BRINGING = 256
ASKING = 8
_BRINGING_CODES = frozenset({RequestCode.ACK_MESSAGE, RequestCode.END_TRANSACTION})

MOST_UNASKED = 64  # frames in a row that `take` is not asked for, where it could not take any


class Connection(asyncio.BufferedProtocol):
    """Commands to and from one peer. All of it runs in the event loop."""

    def __init__(
        self,
        receiver: Receiver,
        *,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        is_server: bool = True,
        on_close: Callable[[Connection], None] = lambda connection: None,
        received: ReceiveBuffer | None = None,
    ) -> None:
        self.peer = Host("", 0)
        self.local = Host("", 0)  # the address that the peer reached us at
        self.is_closed = False
        self.heard_at = 0.0  # of the loop's clock
        self._receiver = receiver
        self._limits = limits
        self._is_server = is_server
        self._on_close = on_close
        self._waiting: Sequence[Command] = ()  # requests that are handed on when the peer has taken its answers
        self.take: Take | None = None
        self._unasked = 0  # so many frames go the usual way before `take` is asked again
        self._next_unasked = 1  # so many the next time that it takes nothing
        self._received = received or ReceiveBuffer()
        self.part = b""  # of a frame that is not whole yet
        self._large = bytearray()  # the place for one that is large
        self._large_end = 0  # how much of it is there
        self._calls: dict[int, asyncio.Future[Command]] = {}
        self._owed = 0
        self._is_paused = False  # reading; see _regulate
        self._is_ending = False  # reads nothing more
        self._has_ended = False  # the peer sends nothing more
        self._is_blocked = False  # writing
        self._may_wait = True  # what was given to the transport, or its end; only the transport knows when it is sent
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader: SocketReader | None = None  # who reads for us, if not the transport
        self.slot = -1  # the number that an engine knows us by
        self.descriptor = -1  # of a socket that can be read and written as it is
        self._closed = self._loop.create_future()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._limits.write_high)
        self.peer = _host(transport.get_extra_info("peername"))
        self.local = _host(transport.get_extra_info("sockname"))
        self.heard_at = self._loop.time()
        self.descriptor = plain_descriptor(self._transport)
        if not self.peer.address:
            self._transport.abort()  # it was gone before it could be asked for its address

    def read_by(self, reader: SocketReader) -> None:
        """Have `reader` read from our socket instead of the transport, if it can be read as it is."""
        if self.descriptor < 0 or self._transport is None or self.is_closed or self._transport.is_closing():
            return
        self._transport.pause_reading()
        self._reader = reader
        reader.add(self)
        if self._is_paused:
            reader.pause(self.descriptor)

    @property
    def is_usual(self) -> bool:
        """Whether what comes next may be taken by anybody."""
        return not (self._large or self._waiting or self._is_blocked)

    def read(self) -> None:
        """Read once, as the transport would."""
        try:
            count = os.readv(self.descriptor, [self.get_buffer(-1)])
        except OSError as error:
            self.read_failed(error.errno or 0)
            return
        if count:
            self.buffer_updated(count)
        else:
            self.input_ended()

    def eof_received(self) -> bool:
        """What is in hand is still answered; with TLS, a transport cannot do that."""
        assert self._transport is not None
        if self._transport.get_extra_info("sslcontext") is not None:
            return False
        self.input_ended()
        return True

    def input_ended(self) -> None:
        """The peer sends no more. Close when it has the answers to what it sent."""
        self._has_ended = self._is_ending = True
        self._regulate()
        self._loop.call_soon(self._close_if_settled)  # what was just read has its turn before

    def _close_if_settled(self) -> None:
        if self._owed <= 0 and not self._waiting:
            self.close()

    def read_failed(self, number: int) -> None:
        """Reading came to nothing, for the reason with this error number."""
        if not is_for_later(number):
            log.info("connection closed peer=%s reason=%s", self.peer, os.strerror(number))
            self.abort()

    def feed(self, data: bytes) -> None:
        """Deal with bytes that were received elsewhere, and begin with a frame."""
        if self.is_closed:
            return
        if self.take is None or len(data) > READ_SIZE:
            self._split(data)
            return
        self._received.begin(data)
        begin = self._received.end
        self._take_in_turns(self.take, begin, begin + len(data))

    @property
    def is_free(self) -> bool:
        """Whether an answer may go straight to the socket: no other waits."""
        transport = self._transport
        if self._may_wait and transport is not None:
            self._may_wait = transport.is_closing() or transport.get_write_buffer_size() > 0
        return not self._may_wait

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large:
            return memoryview(self._large)[self._large_end :]
        return self._received.begin(self.part)

    def buffer_updated(self, nbytes: int) -> None:
        self.heard_at = self._loop.time()
        if self._large:
            self._large_end += nbytes
            if self._large_end == len(self._large):
                data, self._large = bytes(self._large), bytearray()
                self.feed(data)
            return
        begin = self._received.end
        end = begin + len(self.part) + nbytes
        self.part = b""
        if self.take is None:
            self._split(self._received.view[begin:end].tobytes())
        else:
            self._take_in_turns(self.take, begin, end)

    def _take_in_turns(self, take: Take, begin: int, end: int) -> None:
        """Have `take` take what it can; what it cannot goes the usual way, and it is asked again.

        A long run of what it cannot take is not looked at frame by frame.
        """
        data, data_begin = b"", begin
        while begin < end and not self.is_closed:
            is_asked = self._unasked == 0 and not (self._waiting or self._is_blocked)
            taken = take(self, begin, end) if is_asked else 0
            if taken:
                self._next_unasked = 1
                begin += taken
                if begin == end:
                    return
            if not data:
                data, data_begin = self._received.view[begin:end].tobytes(), begin
            count, handled = self._split(data, begin - data_begin, most=self._unasked or self._next_unasked)
            if count == 0:
                return  # what is there of a frame says nothing about the next
            if is_asked:
                self._unasked = self._next_unasked
                self._next_unasked = min(self._next_unasked * 2, MOST_UNASKED)
            self._unasked = max(self._unasked - count, 0)
            begin += handled

    def _split(self, data: bytes, begin: int = 0, *, most: int = MAX_FRAME_SIZE) -> tuple[int, int]:
        """Hand on frames of `data` from `begin` on, and keep the part of one at its end; how many, and their bytes."""
        try:
            frames, end = split_frames(data, self._limits.frame, begin=begin, most=most)
            commands = [decode_command(frame) for frame in frames]
        except BadFrame as error:
            log.warning("connection closed peer=%s reason=%s", self.peer, error)
            self.abort()
            return 0, 0
        if len(frames) < most and end < len(data):
            self.keep_part(data[end:])
        requests = [command for command in commands if not command.flag & 1]
        if len(requests) < len(commands):
            self._take_answers([command for command in commands if command.is_answer])
        if requests:
            self._hand_on([*self._waiting, *requests] if self._waiting else requests)
        return len(frames), end - begin

    def keep_part(self, data: bytes) -> None:
        """Keep the part of a frame, whose head was checked, until the rest comes."""
        size = whole_size(data)
        if size <= LARGE_FRAME:
            self.part = data
        else:
            self._large = bytearray(size)
            self._large[: len(data)] = data
            self._large_end = len(data)

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._regulate()

    def resume_writing(self) -> None:
        self._is_blocked = False
        if self._waiting:
            self._hand_on(self._waiting)
        self._regulate()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = self._may_wait = True
        if self._reader is not None:
            self._reader.remove(self)
            self._reader = None
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if not call.done():
                call.set_exception(ConnectionLost(f"{self.peer} closed the connection: {error or 'no reason given'}"))
        self.part, self._large = b"", bytearray()
        self._waiting = ()
        if not self._closed.done():
            self._closed.set_result(None)
        self._on_close(self)

    # What the rest of the program calls.

    def send(self, command: Command) -> None:
        """Write one command; does nothing when the connection is closed."""
        body = command.body
        if isinstance(body, bytes):
            self.write(encode_head(command, len(body)) + body)
        else:
            self.write(encode_head(command, sum(map(len, body))), *body)

    def write(self, *parts: bytes | memoryview) -> None:
        """Write whole frames, one part after the other."""
        transport = self._open_transport()
        if transport is None:
            return
        self._may_wait = True
        if len(parts) == 1 and isinstance(parts[0], bytes):
            transport.write(parts[0])
        else:
            write_parts(transport, self.descriptor, parts)

    def write_places(self, places: int, count: int, size: int) -> None:
        """Write whole frames, of `size` bytes, from `count` places in memory; see gathered_write."""
        transport = self._open_transport()
        if transport is not None:
            self._may_wait = True
            write_places(transport, self.descriptor, places, count, size)

    def _open_transport(self) -> asyncio.Transport | None:
        """What can be written to; one whose peer lets too many answers wait is closed."""
        transport = self._transport
        if transport is None or self.is_closed or transport.is_closing():
            return None
        if self._is_blocked and self._is_server and transport.get_write_buffer_size() > self._limits.write_limit:
            reason = f"it does not read its answers: more than {self._limits.write_limit} bytes wait"
            log.warning("connection closed peer=%s reason=%s", self.peer, reason)
            self.abort()
            return None
        return transport

    async def call(self, request: Command, *, timeout_s: float) -> Command:
        """Send a request and wait for its answer. Raises ConnectionLost or CallTimeout."""
        if self.is_closed:
            raise ConnectionLost(f"the connection to {self.peer} is closed")
        answer: asyncio.Future[Command] = self._loop.create_future()
        self._calls[request.opaque] = answer
        self.send(request)
        try:
            async with asyncio.timeout(timeout_s):  # wait_for loses a cancellation that comes with the answer
                return await answer
        except TimeoutError as error:
            raise CallTimeout(f"{self.peer} did not answer request {request.code} within {timeout_s:g} s") from error
        finally:
            self._calls.pop(request.opaque, None)

    def owe(self, count: int) -> None:
        """So many requests are in hand and not answered yet."""
        self._owed += count
        self._regulate()

    def settle(self, count: int) -> None:
        """So many of them are answered, or wait for something that the peer knows of."""
        self._owed -= count
        self._regulate()
        if self._has_ended and self._owed <= 0:
            self._loop.call_soon(self._close_if_settled)  # behind the answer

    def stop_reading(self) -> None:
        """Take no more requests; those that are in hand can still be answered."""
        self._is_ending = True
        self._regulate()

    @property
    def is_blocked(self) -> bool:
        """Whether the peer does not take its answers, so that nothing new should be answered."""
        return self._is_blocked

    @property
    def is_idle(self) -> bool:
        return self._loop.time() - self.heard_at > self._limits.idle_s

    def close(self) -> None:
        """Send what is buffered, then close."""
        self._may_wait = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._may_wait = True
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        await asyncio.shield(self._closed)

    def _hand_on(self, requests: Sequence[Command]) -> None:
        """Have requests answered while the peer takes its answers; the others wait until it does again."""
        at, count = 0, len(requests)
        while at < count and not (self._is_blocked and self._is_server):
            begin, brings = at, _brings(requests[at])
            most = min(count, begin + (BRINGING if brings else ASKING))
            while at < most and _brings(requests[at]) is brings:
                at += 1
            self._receiver(self, requests[begin:at] if at - begin < count else requests)
        self._waiting = requests[at:] if at < count else ()

    def _regulate(self) -> None:
        """Read only while the peer takes its answers and does not ask too much at once.

        Of a server and its client one must go on reading, or both might wait for the other for ever: the client.
        """
        if self._transport is None or self.is_closed or self._transport.is_closing():
            return
        limit = self._limits.in_flight
        must_wait = self._is_ending or (self._is_blocked and self._is_server)
        if self._is_paused:
            if not must_wait and self._owed <= limit // 2:
                self._is_paused = False
                self._set_reading(is_on=True)
        elif must_wait or self._owed >= limit:
            self._is_paused = True
            self._set_reading(is_on=False)

    def _set_reading(self, *, is_on: bool) -> None:
        assert self._transport is not None
        if self._reader is not None:
            (self._reader.resume if is_on else self._reader.pause)(self.descriptor)
        elif is_on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _take_answers(self, answers: Sequence[Command]) -> None:
        for answer in answers:
            call = self._calls.pop(answer.opaque, None)
            if call is not None and not call.done():
                call.set_result(answer)


def _host(name: object) -> Host:
    """What a socket is called; nothing for one that has no name any more."""
    if isinstance(name, tuple) and len(name) >= 2:
        return Host(str(name[0]).removeprefix("::ffff:"), int(name[1]))
    return Host("", 0)


def _brings(request: Command) -> bool:
    """Whether a request brings something, or wants no answer: many of those make no large answers."""
    return bool(request.body) or bool(request.flag & ONEWAY) or request.code in _BRINGING_CODES
