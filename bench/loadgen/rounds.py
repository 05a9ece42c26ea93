"""Rounds of a bench over several servers: every round takes each measure on each of its servers, and the medians count.

So a machine that is busy for a while harms all of them alike. What is compared is always a ratio within one run.
A server is started on a fresh folder for every measurement; those that stay are stopped by a signal until their turn.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.loadgen.full_memory import FullMemory
from bench.loadgen.measures import Measure, Sample
from bench.servers.server import ROOT, Peer, PeerError, Server, missing, running


@dataclass
class Rounds:
    """All measurements of a run; a server that fails is left out from then on, and said at the end."""

    peers: Sequence[Peer]
    measures: Sequence[Measure]
    rounds: int
    seconds: float
    warmup: float  # of a measurement
    long_warmup: float  # of a server that stays, once for each kind of measure
    samples: list[Sample] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    _memory: FullMemory = field(default_factory=lambda: FullMemory(ROOT / ".cache"))
    _kept: dict[str, Server] = field(default_factory=dict)
    _warm: set[tuple[str, str]] = field(default_factory=set)

    def run(self) -> None:
        with ExitStack() as staying:
            for peer in self.peers:
                if absent := missing(peer):
                    self._leave_out(peer, f"not installed: {', '.join(absent)}")
            for turn in range(self.rounds):
                for measure in self.measures:
                    for peer in self._peers_of(measure):
                        self._take_turn(peer, measure, turn, staying)

    def _peers_of(self, measure: Measure) -> list[Peer]:
        return [peer for peer in self.peers if peer.name in measure.peers and peer.name not in self.failures]

    def _take_turn(self, peer: Peer, measure: Measure, turn: int, staying: ExitStack) -> None:
        try:
            if peer.stays:
                self._take_kept(peer, measure, turn, staying)
                return
            with running(peer) as server:
                sample = self._take(peer, measure, server, turn)
            self.samples.append(sample | server.notes)  # when it ended well, and its store was found sound
            if "verified" in server.notes:
                say(f"    {server.notes['verified']:,} messages acknowledged, all stored, and sound")
        except PeerError as error:
            self._leave_out(peer, f"{measure.name}: {error}")

    def _take_kept(self, peer: Peer, measure: Measure, turn: int, staying: ExitStack) -> None:
        server = self._kept.get(peer.name)
        if server is None:
            server = self._kept[peer.name] = staying.enter_context(running(peer))
        server.go_on()
        try:
            self._take_awake(peer, measure, server, turn)
        finally:
            server.pause()

    def _take_awake(self, peer: Peer, measure: Measure, server: Server, turn: int) -> None:
        if (peer.name, measure.kind) not in self._warm:
            self._warm.add((peer.name, measure.kind))
            say(f"  {peer.name} warms up for {self.long_warmup:.0f} s")
            measure.take(server, self.rounds, seconds=0.1, warmup=self.long_warmup)
        self.samples.append(self._take(peer, measure, server, turn))

    def _take(self, peer: Peer, measure: Measure, server: Server, turn: int) -> Sample:
        self._memory.fill()
        sample = measure.take(server, turn, seconds=self.seconds, warmup=self.warmup) | server.memory_mib()
        cpu = f"{sample['cpu_us']:.2f} us of CPU a message"
        say(f"  {measure.name} {peer.name}: {sample['rate']:,.0f}/s, {cpu}")
        return {"measure": measure.name, "peer": peer.name, "turn": turn, **sample}

    def _leave_out(self, peer: Peer, reason: str) -> None:
        self.failures[peer.name] = reason
        say(f"  {peer.name} is left out: {reason}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
