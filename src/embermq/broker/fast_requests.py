"""The first look at what connections receive, where kernels are loaded: SENDs, known PULLs and ends of transactions are
taken from it.

Most connections bring one of the first two all the time. That one is tried first, so that neither pays for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from embermq.broker.fast_ends import FastEnds
from embermq.broker.fast_peers import FastPeer
from embermq.broker.fast_pulls import FastPulls, Puller
from embermq.broker.fast_sends import FastSends


class Requester(FastPeer, Puller, Protocol):
    """A connection whose socket can be read from and written to without it."""


Take = Callable[[Requester, int, int], int]


class FastRequests:
    """Takes whole frames at the beginning of received bytes; ordinary code takes those that it leaves."""

    def __init__(self, sends: FastSends, pulls: FastPulls, ends: FastEnds) -> None:
        self.ends = ends
        self.sends = sends
        self.pulls = pulls

    def take(self, peer: Requester, begin: int, end: int) -> int:
        """Take what can be taken; how many bytes that is."""
        takers: list[Take] = [self.sends.take, self.pulls.take, self.ends.take]
        if self.pulls.knows(peer):
            takers[:2] = reversed(takers[:2])
        at, in_vain, turn = begin, 0, 0
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

    def receive(self, peers: Sequence[Requester]) -> None:
        """Read from connections that have something: from those that pull one by one, because each is answered."""
        knows = self.pulls.knows
        pulling = [peer for peer in peers if knows(peer)] if self.pulls.has_readers else []
        if pulling:
            peers = [peer for peer in peers if not knows(peer)]
        if peers:
            self.sends.receive(peers)
        for peer in pulling:
            peer.read()  # which brings it to `take`
