"""Plain connections for code that waits: a thread sends requests, several if it likes, and takes their answers.

Bodies of answers go straight to where they are wanted.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from embermq.client.answers import check_answer
from embermq.client.connections import Credentials, parse_address
from embermq.client.retry import Backoff, Deadline, is_passing
from embermq.errors import BadFrame, CallTimeout, ConnectionLost, EmberError, ReadLost, Refused, TransportError
from embermq.format.command import Command, decode_command, encode_command, make_request
from embermq.format.frame import FRAME_HEAD, MAX_FRAME_SIZE
from embermq.format.signature import signed
from embermq.model.codes import ResponseCode
from embermq.net.pacing import send_at_once

T = TypeVar("T")

MOST_IN_FLIGHT: Final = 64  # requests that are sent before their answers are taken
PATIENCE_S: Final = 30.0  # how long a broker may be away
_SILENCE_S: Final = 10.0  # how long one that is there may say nothing
_DIAL_S: Final = 3.0
_HEADER_MASK: Final = 0xFF_FFFF
_SIZE_SIZE: Final = 4
_MOST_IDLE: Final = 4  # connections that are kept for later

Places = Mapping[int, memoryview]  # where bodies go, by the opaque numbers of requests
_NOWHERE: Final[Places] = {}


class Received(NamedTuple):
    """An answer. `size` bytes of its body are in the place that they were wanted in; else they are its body."""

    answer: Command
    size: int


class BlockingConnection:
    """One connection, for one thread at a time."""

    def __init__(self, address: str, *, tls: ssl.SSLContext | None) -> None:
        host = parse_address(address)
        self._address = address
        self.process = os.getpid()  # a fork must not use it
        try:
            self._socket = socket.create_connection((host.address, host.port), timeout=_DIAL_S)
            self._socket.settimeout(_SILENCE_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            send_at_once(self._socket)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host.address)
        except OSError as error:
            raise ConnectionLost(f"no connection to {address}: {error}") from error

    def send(self, requests: Iterable[Command]) -> None:
        """Raises ConnectionLost or CallTimeout."""
        try:
            self._socket.sendall(b"".join(map(encode_command, requests)))
        except OSError as error:
            raise self._failure(error) from error

    def receive(self, places: Places = _NOWHERE) -> Received:
        """The next answer; requests of the other side are passed over. Raises a TransportError."""
        while True:
            head = bytearray(FRAME_HEAD.size)
            self._fill(memoryview(head))
            size, form_and_header = FRAME_HEAD.unpack(head)
            header_size = form_and_header & _HEADER_MASK
            body_size = size - _SIZE_SIZE - header_size
            if size > MAX_FRAME_SIZE or body_size < 0:
                raise BadFrame(f"{self._address} sent a frame of {size} bytes with a header of {header_size}")
            header = bytearray(header_size)
            self._fill(memoryview(header))
            answer = decode_command((form_and_header >> 24, bytes(header), b""))
            place = places.get(answer.opaque) if answer.code == ResponseCode.SUCCESS else None
            if place is not None and answer.is_answer:
                if body_size > len(place):
                    raise BadFrame(f"{self._address} sent {body_size} bytes where {len(place)} were asked for")
                self._fill(place[:body_size])
                return Received(answer, body_size)
            body = bytearray(body_size)
            self._fill(memoryview(body))
            if answer.is_answer:
                answer.body = bytes(body)
                return Received(answer, 0)

    def close(self) -> None:
        self._socket.close()

    def _fill(self, place: memoryview) -> None:
        done = 0
        try:
            while done < len(place):
                count = self._socket.recv_into(place[done:])
                if count == 0:
                    raise ConnectionLost(f"{self._address} closed the connection")
                done += count
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> TransportError:
        if isinstance(error, TimeoutError):
            return CallTimeout(f"{self._address} said nothing for {_SILENCE_S:g} s")
        return ConnectionLost(f"the connection to {self._address} broke: {error}")


class BrokerLine:
    """Connections to one broker, made when they are needed and kept for the next; any thread may take one."""

    def __init__(
        self,
        address: str,
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.address = address
        self._credentials = credentials
        self._tls = tls
        self._patience_s = patience_s
        self._idle: list[BlockingConnection] = []
        self._lock = threading.Lock()

    def request(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> Command:
        """A request, signed if need be."""
        if self._credentials is not None:
            access_key, secret = self._credentials
            fields = signed(fields, body, access_key=access_key, secret=secret)
        return make_request(code, fields, body)

    def call(self, code: int, fields: Mapping[str, str], *, what: str) -> Command:
        """The answer to one request, asked again while the broker is away. Raises what it says else, or ReadLost."""

        def ask(connection: BlockingConnection) -> Command:
            connection.send([self.request(code, fields)])
            return check_answer(connection.receive().answer, f"{what} at {self.address}")

        return self.use(ask, what=what)

    def call_all(self, code: int, asked: Sequence[Mapping[str, str]], *, what: str) -> list[Command]:
        """The answers to requests that are on their way together, in their order, whatever they say.

        All are sent again after a failure that may pass. Raises ReadLost.
        """

        def ask(connection: BlockingConnection) -> list[Command]:
            answers: dict[int, Command] = {}
            requests = [self.request(code, fields) for fields in asked]
            for begin in range(0, len(requests), MOST_IN_FLIGHT):
                some = requests[begin : begin + MOST_IN_FLIGHT]
                connection.send(some)
                for _ in some:
                    answer = connection.receive().answer
                    refusal = Refused(answer.code, answer.remark, asked=what)
                    if is_passing(refusal):
                        raise refusal
                    answers[answer.opaque] = answer
            if len(answers) != len(requests) or not all(request.opaque in answers for request in requests):
                raise BadFrame(f"{self.address} answered other requests than it was sent")
            return [answers[request.opaque] for request in requests]

        return self.use(ask, what=what)

    def use(self, work: Callable[[BlockingConnection], T], *, what: str) -> T:
        """What `work` gives with a connection; after a failure that may pass, it is done again with another.

        `work` leaves nothing on its way. Raises ReadLost when the broker stays away.
        """
        return self.repeat(lambda: self._try(work), what=what)

    def repeat(self, work: Callable[[], T], *, what: str) -> T:
        """What `work` gives; it is done again after a failure that may pass, for a while. Raises ReadLost."""
        backoff, deadline = Backoff(longest_s=1.0), Deadline(self._patience_s)
        while True:
            try:
                return work()
            except EmberError as error:
                if not (is_passing(error) or isinstance(error, BadFrame)):
                    raise
                if deadline.has_passed:
                    raise ReadLost(self.address, what=what, cause=error, waited_s=self._patience_s) from error
            time.sleep(min(backoff.next(), deadline.left_s))

    def take(self) -> BlockingConnection:
        """A connection for the caller alone. Raises ConnectionLost."""
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if connection.process == os.getpid():
                    return connection
                connection.close()
        return BlockingConnection(self.address, tls=self._tls)

    def give_back(self, connection: BlockingConnection) -> None:
        """Have it used again; nothing is on its way on it."""
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        self.close()

    def _try(self, work: Callable[[BlockingConnection], T]) -> T:
        connection = self.take()
        try:
            found = work(connection)
        except BaseException:
            connection.close()
            raise
        self.give_back(connection)
        return found
