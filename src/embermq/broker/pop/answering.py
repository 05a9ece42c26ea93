"""Answers that wait for the disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Final

from embermq.errors import EmberError
from embermq.format.command import ONEWAY, Command, decode_command, encode_command, make_answer
from embermq.format.frame import FRAME_HEAD, JSON_FORM, encode_frame, split_frames
from embermq.model.codes import ResponseCode
from embermq.rpc.outcome import make_refusal
from embermq.rpc.peer import Peer
from embermq.rpc.router import Observe

log = logging.getLogger(__name__)


_MARK: Final = 1_234_567_890


def _success_parts() -> tuple[bytes, bytes]:
    """An answer without fields, before and behind its number."""
    header = encode_command(make_answer(Command(0, {}, b"", _MARK)))[FRAME_HEAD.size :]
    before, after = header.split(str(_MARK).encode())
    return before, after


_BEFORE, _AFTER = _success_parts()


def _encode_success(opaque: int) -> bytes:
    """The whole frame of an answer that says no more than that all is well."""
    return encode_frame(JSON_FORM, b"%b%d%b" % (_BEFORE, opaque, _AFTER), 0)


class Answering:
    """Sends answers when what they promise is done, or what came instead."""

    def __init__(self, observe: Observe) -> None:
        self._observe = observe
        self._tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Wait for the answers that are on their way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tell(self, peer: Peer, request: Command, answer: Command, error: Exception | None = None) -> None:
        """Send an answer, or what `error` makes of it."""
        if error is not None:
            answer = self.refuse(peer, request, error)
        self._observe(request.code, answer.code, 0.0)
        if not request.is_oneway:
            peer.send(answer)

    def tell_all(self, peer: Peer, requests: Sequence[Command], error: Exception | None = None) -> None:
        """Tell with one write that all is well, or that nothing is."""
        parts: list[bytes] = []
        for request in requests:
            if error is None and request.form == JSON_FORM:
                code, answer = int(ResponseCode.SUCCESS), _encode_success(request.opaque)
            else:
                made = make_answer(request) if error is None else self.refuse(peer, request, error)
                code, answer = made.code, encode_command(made)
            self._observe(request.code, code, 0.0)
            if not request.flag & ONEWAY:
                parts.append(answer)
        if parts:
            peer.write(b"".join(parts))

    def tell_written(self, peer: Peer, code: int, answers: bytes, count: int, error: Exception | None = None) -> None:
        """The same for `count` requests of one code, whose answers that all is well are written already."""
        if error is None:
            self._observe(code, ResponseCode.SUCCESS, 0.0, count)
            peer.write(answers)
            return
        written = [decode_command(frame) for frame in split_frames(answers)[0]]
        self.tell_all(peer, [Command(code, {}, b"", each.opaque, form=each.form) for each in written], error)

    def tell_after(self, work: Coroutine[object, object, None], peer: Peer, request: Command, answer: Command) -> None:
        """Send an answer when `work` is done."""

        async def run() -> None:
            try:
                await work
            except Exception as error:
                self.tell(peer, request, answer, error)
            else:
                self.tell(peer, request, answer)
            finally:
                peer.settle(1)

        peer.owe(1)
        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def refuse(self, peer: Peer, request: Command, error: Exception) -> Command:
        """The answer to a request that failed; what nobody foresaw is said in the log."""
        if not isinstance(error, EmberError):
            log.error("request failed peer=%s code=%d", peer.peer, request.code, exc_info=error)
        return make_refusal(request, error)
