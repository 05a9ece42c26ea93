"""Request code to handler, and whatever a handler does to an answer.

A handler takes one request and returns its answer; or nothing, when it answers later by itself
(a pull that waits); or something to await. A batch handler takes all requests of one read that
follow each other and answers them itself: that is where work is done many at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Protocol

from embermq.errors import EmberError, IllegalField, NotSupported
from embermq.format.command import Command
from embermq.format.frame import MAX_FRAME_SIZE
from embermq.rpc.outcome import make_refusal
from embermq.rpc.peer import Peer
from embermq.rpc.unserved import reason_of

log = logging.getLogger(__name__)

MAX_BODY_SIZE: Final = 1024 * 1024  # of a request; reading a larger one would keep all other clients waiting

Answer = Command | None
Handler = Callable[[Peer, Command], Answer | Awaitable[Answer]]
BatchHandler = Callable[[Peer, Sequence[Command]], None]
Check = Callable[[Peer, Command], None]
Detour = Callable[[Peer, Sequence[Command]], Sequence[Command]]
CheckTopic = Callable[[Peer, Command, str], None]  # for handlers that learn a topic only from what they found


class Observe(Protocol):
    """Told how long requests of a code took until they were answered, one or `count` of them."""

    def __call__(self, request_code: int, response_code: int, seconds: float, count: int = 1, /) -> None: ...


def observe_nothing(request_code: int, response_code: int, seconds: float, count: int = 1, /) -> None:
    """Where nobody wants to know."""


def check_body(request: Command, limit: int = MAX_BODY_SIZE) -> None:
    """Refuse a request whose body is larger than `limit`. Raises IllegalField."""
    if len(request.data) > limit:
        raise IllegalField("body", f"{len(request.data)} bytes, limit {limit}; ask for less at a time")


class Router:
    """Finds the handler of each request, and answers for those that fail."""

    def __init__(self, *, check: Check | None = None, observe: Observe = observe_nothing):
        self._handlers: dict[int, tuple[Handler, int]] = {}  # each with the largest body that it takes
        self._batch_handlers: dict[int, BatchHandler] = {}
        self._loose_codes: set[int] = set()  # whose requests have nothing to do with the others of a read
        self._check = check  # raises AccessDenied
        self._observe = observe
        self.detour: Detour | None = None  # sees requests before handlers do, and gives back what it leaves to them
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, handlers: Mapping[int, Handler], *, max_body_size: int = MAX_BODY_SIZE) -> None:
        """Have these handlers answer these codes, whose bodies are no larger than that; a code has one handler."""
        for code, handler in handlers.items():
            assert code not in self._handlers, f"request code {code} has a handler already"
            self._handlers[int(code)] = (handler, max_body_size)

    def add_batch(self, codes: Iterable[int], handler: BatchHandler, *, any_order: bool = False) -> None:
        """Have `handler` answer these codes, several requests at a time; before all others of a read in `any_order`."""
        self._batch_handlers.update((int(code), handler) for code in codes)
        if any_order:
            self._loose_codes |= {int(code) for code in codes}

    def receive(self, peer: Peer, requests: Sequence[Command]) -> None:
        """Handle all requests of one read, in their order, except for those in any order."""
        if self._check is not None:
            requests = [request for request in requests if self._is_allowed(peer, request)]
        if self.detour is not None:
            requests = self.detour(peer, requests)
        self.handle(peer, requests)

    def handle(self, peer: Peer, requests: Sequence[Command]) -> None:
        """Have requests that are allowed answered by their handlers."""
        codes = {request.code for request in requests}
        for code in codes & self._loose_codes if len(codes) > 1 else ():
            self._hand_on(peer, self._batch_handlers[code], [each for each in requests if each.code == code])
            requests = [each for each in requests if each.code != code]
        handlers = {self._batch_handlers.get(code) for code in {request.code for request in requests}}
        if len(handlers) == 1:  # nearly always
            self._hand_on(peer, handlers.pop(), requests)
            return
        for handler, run in groupby(requests, lambda request: self._batch_handlers.get(request.code)):
            self._hand_on(peer, handler, list(run))

    def _hand_on(self, peer: Peer, handler: BatchHandler | None, requests: Sequence[Command]) -> None:
        if handler is not None:
            handler(peer, requests)
        else:
            for request in requests:
                self._handle(peer, request)

    async def stop(self) -> None:
        """Wait for the requests that are being answered."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_allowed(self, peer: Peer, request: Command) -> bool:
        assert self._check is not None
        try:
            self._check_size(request)  # what a request needs may have to be read from its body
            self._check(peer, request)
        except EmberError as error:
            log.warning("refused peer=%s code=%d reason=%s", peer.peer, request.code, error)
            self._answer(peer, request, make_refusal(request, error), began=self._now())
            return False
        return True

    def _handle(self, peer: Peer, request: Command) -> None:
        began = self._now()
        try:
            answer = self._handler_of(request)(peer, request)
        except Exception as error:
            self._answer(peer, request, self._refusal(peer, request, error), began=began)
            return
        if isinstance(answer, Coroutine):
            peer.owe(1)
            task = asyncio.get_running_loop().create_task(self._finish(peer, request, answer, began))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif answer is not None:
            assert isinstance(answer, Command)
            self._answer(peer, request, answer, began=began)

    def _handler_of(self, request: Command) -> Handler:
        if request.code not in self._handlers:
            raise NotSupported(f"request type {request.code} not supported; {reason_of(request.code)}")
        self._check_size(request)
        return self._handlers[request.code][0]

    def _check_size(self, request: Command) -> None:
        check_body(request, self._handlers[request.code][1] if request.code in self._handlers else MAX_FRAME_SIZE)

    async def _finish(self, peer: Peer, request: Command, work: Coroutine[Any, Any, Answer], began: float) -> None:
        try:
            answer = await work
        except (Exception, asyncio.CancelledError) as error:
            answer = self._refusal(peer, request, error)
        finally:
            peer.settle(1)
        if answer is not None:
            self._answer(peer, request, answer, began=began)

    def _refusal(self, peer: Peer, request: Command, error: BaseException) -> Command:
        if not isinstance(error, EmberError | asyncio.CancelledError):
            log.exception("handler failed peer=%s code=%d fields=%s", peer.peer, request.code, dict(request.fields))
        return make_refusal(request, error)

    def _answer(self, peer: Peer, request: Command, answer: Command, *, began: float) -> None:
        self._observe(request.code, answer.code, self._now() - began)
        if not request.is_oneway:
            peer.send(answer)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
