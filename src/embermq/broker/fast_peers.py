"""The connections that an engine reads from and writes to, where kernels find them. Only loaded where kernels are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from embermq.broker.intake import born_of
from embermq.files.memory import bytes_address
from embermq.kernels.answers import AnswerTexts
from embermq.kernels.compiling import Table
from embermq.kernels.sockets import (
    HOST,
    HOST_FLAG,
    HOST_SIZE,
    IS_FREE,
    PART,
    PART_SIZE,
    PEER_WIDTH,
    SOCKET,
    TEXTS,
    TEXTS_SIZE,
)
from embermq.rpc.peer import Peer


class FastPeer(Peer, Protocol):
    """A connection whose socket can be used without it."""

    slot: int
    heard_at: float
    part: bytes  # of a frame that is not whole yet

    @property
    def is_free(self) -> bool:
        """Whether an answer may go straight to the socket."""
        ...

    def read(self) -> None:
        """Read by yourself."""
        ...

    def read_failed(self, number: int) -> None:
        """Reading came to nothing, for the reason with this error number."""
        ...

    def input_ended(self) -> None:
        """The other end sends no more."""
        ...

    def feed(self, data: bytes) -> None:
        """Deal with these bytes, which were received for you."""
        ...

    def keep_part(self, data: bytes) -> None:
        """Keep the part of a frame."""
        ...


class FastPeers:
    """Gives every connection a row of numbers, and takes it back."""

    def __init__(self) -> None:
        self.table: Table = np.zeros((64, PEER_WIDTH), np.int64)
        self._free = list(range(64))
        self._kept: dict[int, tuple[FastPeer, bytes]] = {}  # by slot, with its host, which stays where it is
        self.numbers = self.table.reshape(-1).data  # quicker than numpy to read one by one

    def add(self, peer: FastPeer, descriptor: int, texts: AnswerTexts) -> None:
        if not self._free:
            self._grow()
        slot = self._free.pop()
        born = born_of(peer.peer)
        self._kept[slot] = peer, born.host
        row = self.table[slot]
        row[SOCKET], row[HOST], row[HOST_SIZE], row[HOST_FLAG] = descriptor, born.address, len(born.host), born.flag
        row[TEXTS], row[TEXTS_SIZE] = texts.address, texts.size
        peer.slot = slot

    def tell_texts(self, texts_of: Callable[[FastPeer], AnswerTexts]) -> None:
        """Have everybody answered with other texts. Whoever made them keeps them."""
        for slot, (peer, _) in self._kept.items():
            texts = texts_of(peer)
            self.table[slot, [TEXTS, TEXTS_SIZE]] = texts.address, texts.size

    def remove(self, peer: FastPeer) -> None:
        if peer.slot >= 0:
            self._free.append(peer.slot)
            del self._kept[peer.slot]
            peer.slot = -1

    def slots_of(self, peers: Sequence[FastPeer], now: float) -> Table:
        """The rows of peers that are about to be read, with what is not known there yet."""
        numbers, slots = self.numbers, []
        for peer in peers:
            slot, part = peer.slot, peer.part
            at = slot * PEER_WIDTH
            numbers[at + PART_SIZE] = len(part)
            if part:
                numbers[at + PART] = bytes_address(part)
            numbers[at + IS_FREE] = peer.is_free
            peer.heard_at = now
            slots.append(slot)
        return np.array(slots, np.int64)

    def _grow(self) -> None:
        count = len(self.table)
        self.table = np.concatenate([self.table, np.zeros_like(self.table)])
        self._free = list(range(count, 2 * count))
        self.numbers = self.table.reshape(-1).data
