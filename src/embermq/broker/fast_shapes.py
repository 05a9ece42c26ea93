"""Requests that kernels recognize by their shape: what is known of a connection's, and how they are taken.

    one of a new shape    ordinary code says whether its like may be taken; its header is learned (learned_headers.py)
    those like it         kernels take them out of the received bytes

Only loaded where kernels are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np

from embermq.kernels.compiling import Table
from embermq.kernels.shapes import ENOUGH, NOT_KNOWN
from embermq.rpc.peer import Peer

MOST_SHAPES: Final = 256  # of a connection
_FIRST_SHAPES: Final = 4

Shape = TypeVar("Shape")


class AskingPeer(Peer, Protocol):
    """A peer that may be slower than its answers."""

    @property
    def is_blocked(self) -> bool:
        """Whether it does not take what was written, so that nothing more should be."""
        ...


Asking = TypeVar("Asking", bound=AskingPeer)


class ShapeTable(Generic[Shape]):
    """The shapes of one connection's requests of one kind, and their rows for kernels."""

    def __init__(self, width: int) -> None:
        self.shapes: list[Shape] = []
        self._use(np.zeros((_FIRST_SHAPES, width), np.int64))

    def _use(self, table: Table) -> None:
        self._table = table
        self.address = int(table.ctypes.data)

    def add(self, shape: Shape, row: list[int]) -> None:
        number = len(self.shapes)
        if number == MOST_SHAPES:
            self.shapes, number = [], 0  # those that are still used come back
        if number == len(self._table):
            self._use(np.concatenate([self._table, np.zeros_like(self._table)]))
        self.shapes.append(shape)
        self._table[number] = row

    def set_row(self, number: int, row: list[int]) -> None:
        self._table[number] = row


Reader = TypeVar("Reader", bound=ShapeTable[Any])


class ShapeTaker(ABC, Generic[Asking, Reader]):
    """Takes requests of one kind, of connections some of whose shapes it knows. All of it runs in the event loop."""

    def __init__(self) -> None:
        self._readers: dict[Peer, Reader] = {}

    @property
    def has_readers(self) -> bool:
        return bool(self._readers)

    def knows(self, peer: Peer) -> bool:
        """Whether this peer was seen to send such requests."""
        return peer in self._readers

    def forget(self, peer: Peer) -> None:
        """A connection is closed."""
        self._readers.pop(peer, None)

    def take(self, peer: Asking, begin: int, end: int) -> int:
        """Take requests at the beginning of what was received, as far as kernels can; how many bytes they take."""
        at, learned_at = begin, -1
        while at < end and not peer.is_blocked:
            taken, reason = self._take_some(peer, at, end)
            at += taken
            if reason == ENOUGH:
                continue
            if reason != NOT_KNOWN or learned_at == at or not self._learn(peer, at, end):
                break
            learned_at = at
        return at - begin

    @abstractmethod
    def _take_some(self, peer: Asking, begin: int, end: int) -> tuple[int, int]:
        """Take some requests: how many bytes they take, and why not all."""

    @abstractmethod
    def _learn(self, peer: Asking, begin: int, end: int) -> bool:
        """Learn the shape of the request that comes next; False if kernels cannot take its like."""
