"""Ends of transactions out of received bytes: ordinary code ends them, but those of one read together.

They come among half messages, which kernels take: without this, ordinary code would be given both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from embermq.errors import BadFrame
from embermq.format.command import Command
from embermq.format.frame import FRAME_HEAD, JSON_FORM, FrameLimits
from embermq.kernels.commands import decode_command
from embermq.rpc.peer import Peer

_HEAD_SIZE: Final = FRAME_HEAD.size
_SIZE_SIZE: Final = 4
_END: Final = b'{"code":37,'  # how RocketMQ's clients and ours begin the header
_LEAST: Final = _HEAD_SIZE + len(_END)

Receive = Callable[[Peer, Sequence[Command]], None]


class FastEnds:
    """Takes whole END_TRANSACTION frames at the beginning of received bytes."""

    def __init__(self, received: memoryview, receive: Receive, limits: FrameLimits) -> None:
        self._received = received
        self._receive = receive
        self._limits = limits

    def take(self, peer: Peer, begin: int, end: int) -> int:
        """Have the ends at the beginning of what was received handled; how many bytes they take."""
        received = self._received
        if end - begin < _LEAST or bytes(received[begin + _HEAD_SIZE : begin + _LEAST]) != _END:
            return 0
        data = received[begin:end].tobytes()
        at, requests = 0, []
        while (frame := self._find_frame(data, at)) is not None:
            header_end, frame_end = frame
            try:
                requests.append(
                    decode_command((JSON_FORM, data[at + _HEAD_SIZE : header_end], data[header_end:frame_end]))
                )
            except BadFrame:
                break  # ordinary code says so
            at = frame_end
        if requests:
            self._receive(peer, requests)
        return at

    def _find_frame(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Where header and frame of an END_TRANSACTION end; None if none is there, whole and as it should be."""
        if len(data) - at < _LEAST or not data.startswith(_END, at + _HEAD_SIZE):
            return None
        size, header = FRAME_HEAD.unpack_from(data, at)
        frame_size, header_size = self._limits
        # The number of another form than JSON's makes a header that is too large.
        if not 0 <= header <= min(size - _SIZE_SIZE, header_size) or size > frame_size - _SIZE_SIZE:
            return None
        end = at + _SIZE_SIZE + size
        return (at + _HEAD_SIZE + header, end) if end <= len(data) else None
