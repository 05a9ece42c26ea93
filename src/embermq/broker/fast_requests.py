"""The first look at what connections receive, where kernels are loaded: SENDs, known PULLs, ACKs of popped messages and
ends of transactions are taken from it.

Most connections bring one of the first three all the time. That one is tried first, so that none pays for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from embermq.broker.fast_acks import FastAcks
from embermq.broker.fast_ends import FastEnds
from embermq.broker.fast_peers import FastPeer
from embermq.broker.fast_pulls import FastPulls, Puller
from embermq.broker.fast_sends import FastSends
from embermq.rpc.peer import Peer


class Requester(FastPeer, Puller, Protocol):
    """A connection whose socket can be read from and written to without it."""


Take = Callable[[Requester, int, int], int]


class FastRequests:
    """Takes whole frames at the beginning of received bytes; ordinary code takes those that it leaves."""

    def __init__(self, sends: FastSends, pulls: FastPulls, acks: FastAcks, ends: FastEnds) -> None:
        self.acks = acks
        self.ends = ends
        self.sends = sends
        self.pulls = pulls

    def take(self, peer: Requester, begin: int, end: int) -> int:
        """Take what can be taken; how many bytes that is."""
        takers: list[Take] = [self.sends.take, self.pulls.take, self.ends.take, self.acks.take]
        at, in_vain, turn = begin, 0, 0
        if self.acks.knows(peer):
            at += self.acks.take(peer, begin, end)
            if at == end or self.acks.is_pop(at, end):  # which follows its acks, and nobody here takes
                return at - begin
        elif self.pulls.knows(peer):
            takers[:2] = reversed(takers[:2])
        while at < end and in_vain < len(takers) and not peer.is_blocked:
            taken = takers[turn % len(takers)](peer, at, end)
            at, turn = at + taken, turn + 1
            in_vain = 0 if taken else in_vain + 1
        return at - begin

    def add(self, peer: Requester, descriptor: int) -> None:
        """Know a connection by its socket."""
        self.sends.add(peer, descriptor)

    def remove(self, peer: Requester) -> None:
        self.sends.remove(peer)

    def forget(self, peer: Peer) -> None:
        """A connection is closed."""
        self.pulls.forget(peer)
        self.acks.forget(peer)

    def receive(self, peers: Sequence[Requester]) -> None:
        """Read from connections that have something; one by one from those that pull or pop."""
        alone = [peer for peer in peers if self._reads_alone(peer)] if self._has_readers else []
        if alone:
            peers = [peer for peer in peers if not self._reads_alone(peer)]
        if peers:
            self.sends.receive(peers)
        for peer in alone:
            peer.read()  # which brings it to `take`

    @property
    def _has_readers(self) -> bool:
        return self.pulls.has_readers or self.acks.has_readers

    def _reads_alone(self, peer: Requester) -> bool:
        return self.pulls.knows(peer) or self.acks.knows(peer)
