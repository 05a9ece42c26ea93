"""One plain connection to a server, a request at a time, as no client library would use it."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Self

from embermq.format.command import Command, decode_command, encode_command, make_request
from embermq.format.frame import split_frames

PATIENCE_S = 20.0


class Line:
    """One plain connection."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send as much as the other side takes before it closes."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
        request = make_request(code, fields, body)
        self.send(encode_command(request))
        answer = self.receive()
        assert answer.opaque == request.opaque
        return answer

    def receive(self) -> Command:
        """The next answer."""
        while True:
            frames, _ = split_frames(self._received)
            if frames:
                self._received = b""
                assert len(frames) == 1
                return decode_command(frames[0])
            data = self.socket.recv(1 << 20)
            assert data, "the connection was closed"
            self._received += data

    def is_closed_by_peer(self) -> bool:
        """Wait until the other side closes; what it says before that does not matter."""
        try:
            while self.socket.recv(1 << 20):
                pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True
