"""Many sockets in one call: what they bring, what they say when they bring nothing, and what they take."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from embermq.kernels import sockets as column
from embermq.kernels import turn as known
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.shares import SHARE_END, SHARE_SENT, send_shares
from embermq.kernels.sockets import PEER_WIDTH, receive_from
from embermq.kernels.turn import TurnMemory

SIZE = 1 << 16


class Scene:
    """Pairs of sockets, and a turn that knows no topic, so that nothing is taken."""

    def __init__(self, count: int) -> None:
        self.pairs = [socket.socketpair() for _ in range(count)]
        self.peers = np.zeros((count, PEER_WIDTH), np.int64)
        for row, (ours, _) in zip(self.peers, self.pairs, strict=True):
            ours.setblocking(False)
            row[column.SOCKET] = ours.fileno()
        self.memory = bytearray(SIZE)
        self.turn = TurnMemory(8, 4096, 8)
        self.turn.numbers[known.RECEIVED], self.turn.numbers[known.RECEIVED_SIZE] = address_of(self.memory), SIZE

    def receive(self, *slots: int, begin: int = 0, most: int = 4096) -> int:
        """Receive from peers, one after the other; how many had their turn."""
        for number, slot in enumerate(slots):
            peer = int(self.peers.ctypes.data) + slot * PEER_WIDTH * 8
            if not receive_from(self.turn.address, peer, begin, most):
                return number
            begin += max(int(self.peers[slot, column.GOT]), 0)
        return len(slots)

    def got(self, slot: int) -> bytes | int:
        """What came from a peer, or the number that says why nothing did."""
        begin, size = self.peers[slot, [column.BEGIN, column.GOT]].tolist()
        return bytes(self.memory[begin : begin + size]) if size > 0 else size

    def close(self) -> None:
        for pair in self.pairs:
            for each in pair:
                each.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene(4)
    yield made
    made.close()


def test_what_peers_sent_lies_side_by_side(scene: Scene) -> None:
    for number, (_, theirs) in enumerate(scene.pairs):
        theirs.send(b"hello from %d" % number)
    assert scene.receive(2, 0, 3) == 3
    assert [scene.got(slot) for slot in (2, 0, 3)] == [b"hello from 2", b"hello from 0", b"hello from 3"]
    assert scene.peers[3, column.BEGIN] == len(b"hello from 2hello from 0")


def test_the_part_that_was_there_comes_first(scene: Scene) -> None:
    part = b"a frame that"
    scene.peers[1, [column.PART, column.PART_SIZE]] = address_of(part), len(part)
    scene.pairs[1][1].send(b" goes on")
    assert scene.receive(1, begin=100) == 1
    assert scene.got(1) == b"a frame that goes on"
    assert scene.peers[1, column.BEGIN] == 100


def test_sockets_without_anything_say_why(scene: Scene) -> None:
    scene.pairs[1][1].close()
    scene.peers[2, column.SOCKET] = -1
    assert scene.receive(0, 1, 2) == 3
    assert [scene.got(slot) for slot in range(3)] == [-errno.EAGAIN, 0, -errno.EBADF]


def test_nothing_is_received_where_there_is_no_room(scene: Scene) -> None:
    for _, theirs in scene.pairs:
        theirs.send(b"x" * 100)
    assert scene.receive(0, 1, most=SIZE) == 1, "no room for a second one"
    assert scene.receive(2, begin=-1) == 0
    scene.peers[3, column.PART_SIZE] = -1
    assert scene.receive(3) == 0
    scene.peers[3, column.PART_SIZE] = 2**62
    assert scene.receive(3) == 0


def shares_of(*facts: tuple[int, bool, int]) -> Table:
    """Of each the slot, whether its socket is free, and where its answers end."""
    return np.array([(0, slot, is_free, end, -1) for slot, is_free, end in facts], np.int64)


def test_every_peer_gets_its_share(scene: Scene) -> None:
    out = b"oneTWOthreefour"
    shares = shares_of((1, True, 3), (2, False, 6), (3, True, 11), (0, True, 15))
    assert send_shares(scene.peers, shares, address_of(out), len(out)) == 1
    assert shares[:, SHARE_SENT].tolist() == [3, 0, 5, 4]
    assert [scene.pairs[slot][1].recv(100) for slot in (1, 3, 0)] == [b"one", b"three", b"four"]


def test_what_a_socket_does_not_take_is_left(scene: Scene) -> None:
    out = bytes(1 << 24)
    scene.pairs[1][1].close()
    shares = shares_of((0, True, len(out) - 1), (1, True, len(out)))
    assert send_shares(scene.peers, shares, address_of(out), len(out)) == 2
    sent = int(shares[0, SHARE_SENT])
    assert 0 < sent < len(out) - 1
    assert shares[1, SHARE_SENT] == 0, "nobody is there any more, and no signal ends us"


@pytest.mark.parametrize("ends", [[5, 3], [-1, 3], [3, 100]])
def test_shares_that_cannot_be_are_not_sent(scene: Scene, ends: list[int]) -> None:
    shares = shares_of(*((0, True, end) for end in ends))
    bad = next(number for number, end in enumerate(ends) if not (ends[number - 1] if number else 0) <= end <= 10)
    assert send_shares(scene.peers, shares, address_of(b"x" * 10), 10) == len(ends) - bad
    assert shares[bad:, SHARE_SENT].max() <= 0
    assert shares[:, SHARE_END].tolist() == ends


@pytest.mark.parametrize("slot", [-1, 4, 2**62])
def test_nothing_is_sent_to_a_peer_that_is_not_there(scene: Scene, slot: int) -> None:
    assert send_shares(scene.peers, shares_of((slot, True, 3)), address_of(b"one"), 3) == 1
