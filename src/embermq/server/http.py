"""/metrics and /healthz over HTTP, for Prometheus and for whatever starts and stops servers.

The figures are read in the event loop, where they change; the text is made in a thread. Everything else
is refused: other paths, other methods, long requests, and more than a few at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple

from embermq.server.exposition import Family, render
from embermq.store.state import StoreState

log = logging.getLogger(__name__)

MOST_REQUEST_BYTES: Final = 8192
MOST_AT_ONCE: Final = 16
REQUEST_S: Final = 10.0
_TEXT: Final = "text/plain; charset=utf-8"


class Reply(NamedTuple):
    """What a request is answered with."""

    status: HTTPStatus
    body: bytes = b""
    content_type: str = _TEXT


class _Request(NamedTuple):
    method: str
    path: str
    accept: str


class HttpServer:
    """Serves figures and health on one listening socket."""

    def __init__(self, *, families: Callable[[], list[Family]], health: Callable[[], Reply]) -> None:
        """Both are called in the event loop."""
        self._families = families
        self._health = health
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=MOST_REQUEST_BYTES)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= MOST_AT_ONCE:
            log.warning("http connection refused reason=%d are open", len(self._tasks))
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                request, reply = await self._answer(reader)
                writer.write(_encode(reply, has_body=request is None or request.method != "HEAD"))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            log.debug("http connection ended early peer=%s", writer.get_extra_info("peername"))
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[_Request | None, Reply]:
        try:
            request = _parse(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return None, Reply(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if request is None:
            return None, Reply(HTTPStatus.BAD_REQUEST)
        try:
            return request, await self._reply(request)
        except Exception:
            log.exception("http request failed path=%s", request.path)
            return request, Reply(HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _reply(self, request: _Request) -> Reply:
        if request.path not in ("/metrics", "/healthz"):
            return Reply(HTTPStatus.NOT_FOUND, b"there are /metrics and /healthz\n")
        if request.method not in ("GET", "HEAD"):
            return Reply(HTTPStatus.METHOD_NOT_ALLOWED)
        if request.path == "/healthz":
            return self._health()
        families = self._families()
        body, content_type = await asyncio.to_thread(render, families, request.accept)
        return Reply(HTTPStatus.OK, body, content_type)


def health_of(state: StoreState, *, is_ready: bool) -> Reply:
    """200 while requests are served and messages are taken, else 503; the reason is in the body."""
    body = {
        "ready": is_ready and state.readable and state.writable,
        "readable": state.readable,
        "writable": state.writable,
        "refusal": state.refusal,
        "durability": state.durability,
        "dispatchBehindBytes": state.dispatch_behind,
        "flushBehindBytes": state.flush_behind,
    }
    status = HTTPStatus.OK if body["ready"] else HTTPStatus.SERVICE_UNAVAILABLE
    return Reply(status, json.dumps(body).encode() + b"\n", "application/json")


def _parse(head: bytes) -> _Request | None:
    """The request line and what it accepts; None if it is no HTTP."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    accept = ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip().lower() == "accept":
            accept = value.strip()
    return _Request(words[0], words[1].partition("?")[0], accept)


def _encode(reply: Reply, *, has_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\nContent-Type: {reply.content_type}\r\n"
        f"Content-Length: {len(reply.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (reply.body if has_body else b"")
