"""SEND: all messages that one turn of the event loop brought go to the store together, whoever sent them.

    read of connection A ─┐
    read of connection B ─┼─→ drafts ─→ one put, at the end of the turn ─→ answers, one write a connection
    read of connection C ─┘

A client's batch is put by itself, because its records lie side by side, and behind what came before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from embermq.broker.intake import Intake, Sent, born_of, is_half
from embermq.broker.membership import Membership
from embermq.broker.puts import Puts
from embermq.broker.send_answers import NO_FIELDS, Answerable, SendAnswers, Wanted, wanted_of
from embermq.broker.stages import Stages
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.transactions.halves import SentHalf
from embermq.errors import EmberError, FlushTimeout, RequestError
from embermq.format.command import Command
from embermq.format.record import DraftFields
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.properties import REPLY_TO_CLIENT, find_property
from embermq.rpc.peer import Peer
from embermq.rpc.router import Observe
from embermq.store.writer import Submitted

log = logging.getLogger(__name__)

CODES: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
NoteHalves = Callable[[Mapping[int, SentHalf], Submitted], None]
LARGEST_TURN: Final = 4096  # drafts that are put at once
_REPLY_TO: Final = REPLY_TO_CLIENT.encode()


@dataclass(slots=True)
class _Turn:
    """What one turn of the event loop brought: drafts, and who wants which answers."""

    drafts: list[DraftFields] = field(default_factory=list)
    wanted: list[tuple[Peer, list[Answerable]]] = field(default_factory=list)
    halves: dict[int, SentHalf] = field(default_factory=dict)  # those of transactions among the drafts


class SendHandlers:
    """Answers SEND requests, all of one turn together."""

    def __init__(
        self,
        intake: Intake,
        puts: Puts,
        membership: Membership,
        statistics: BrokerStatistics,
        answers: SendAnswers,
        *,
        stages: Stages,
        observe: Observe,
        now: Callable[[], float],
    ) -> None:
        self._stages = stages
        self._intake = intake
        self._puts = puts
        self._membership = membership
        self._statistics = statistics
        self._answers = answers
        self._observe = observe
        self._now = now
        self._turn = _Turn()
        self.before: Callable[[], None] = lambda: None  # has what came before put first
        self.note_halves: NoteHalves = lambda halves, submitted: None  # told of half messages that are stored

    def receive(self, peer: Peer, requests: Sequence[Command]) -> None:
        """Take the messages of one read; each is answered when it is safe."""
        self.before()
        began = self._now()
        born = born_of(peer.peer)
        wanted: list[Answerable] = []
        drafts = self._turn.drafts
        self._intake.refresh()
        plain, half = self._intake.plain, self._intake.half
        for request in requests:
            found = None if is_half(request) else plain(request, born)
            if found is not None:
                draft, queue, unique_id = found
                wanted.append((request, len(drafts), 1, queue, unique_id, NO_FIELDS))
                drafts.append(draft)
                continue
            begun = half(request, born)
            if begun is not None:
                draft, queue, unique_id, of_transaction = begun
                wanted.append((request, len(drafts), 1, queue, unique_id, NO_FIELDS))
                self._keep_half(peer, of_transaction)
                drafts.append(draft)
                continue
            try:
                sent = self._intake.timed(request, born) or self._intake.careful(request, born)
            except Exception as error:
                self._refuse(peer, request, error)
                continue
            if sent.is_batch:
                self._expect(peer, wanted)
                self.put_turn()
                peer.owe(1)
                alone = _Turn(list(sent.drafts), [(peer, [wanted_of(request, 0, sent)])])
                self._put(alone, together=True)
                wanted, drafts = [], self._turn.drafts
            else:
                self._note_requester(peer, sent)
                if sent.half is not None:
                    self._keep_half(peer, sent.half)
                wanted.append(wanted_of(request, len(drafts), sent))
                drafts.extend(sent.drafts)
        self._expect(peer, wanted)
        self._stages.read.count(len(requests), self._now() - began)
        if len(drafts) >= LARGEST_TURN:
            self.put_turn()

    def _expect(self, peer: Peer, wanted: list[Answerable]) -> None:
        """Keep what this turn owes to `peer`; the first to come has the turn put."""
        if not wanted:
            return
        if not self._turn.wanted:
            asyncio.get_running_loop().call_soon(self.put_turn)
        peer.owe(len(wanted))
        self._turn.wanted.append((peer, wanted))

    def put_turn(self) -> None:
        """Store what this turn brought."""
        turn, self._turn = self._turn, _Turn()
        if turn.wanted:
            self._put(turn)

    def _put(self, turn: _Turn, *, together: bool = False) -> None:
        began = self._now()

        def done(submitted: Submitted | None, error: Exception | None) -> None:
            if submitted is not None:
                self._answer(turn, submitted, error, self._now() - began)
            elif isinstance(error, RequestError) and len(turn.drafts) > 1 and not together:
                self._put_one_by_one(turn)  # one of them is to blame; the others are not
            else:
                self._refuse_all(turn, error or AssertionError("neither stored nor refused"))

        self._puts.submit(turn.drafts, done, together=together)
        self._stages.store.count(len(turn.drafts), self._now() - began)

    def _put_one_by_one(self, turn: _Turn) -> None:
        for peer, wanted in turn.wanted:
            for each in map(Wanted._make, wanted):
                own = turn.drafts[each.begin : each.begin + each.drafts]
                halves = {0: turn.halves[each.begin]} if each.begin in turn.halves else {}
                self._put(_Turn(own, [(peer, [each._replace(begin=0)])], halves), together=True)

    def _answer(self, turn: _Turn, submitted: Submitted, error: Exception | None, seconds: float) -> None:
        began = self._now()
        if turn.halves:  # before their senders know, and end them
            self.note_halves(turn.halves, submitted)
        for peer, wanted in turn.wanted:
            peer.settle(len(wanted))
            if error is None:
                frames = self._answers.stored(peer, wanted, submitted)
            else:
                assert isinstance(error, FlushTimeout)
                frames = self._answers.unconfirmed(peer, wanted, submitted, error)
            if frames:
                peer.write(frames)
        self._count(turn.drafts, submitted, seconds * 1000)
        self.count_turn(seconds, sum(len(wanted) for _, wanted in turn.wanted))
        self._stages.answer.count(len(turn.drafts), self._now() - began)

    def count_turn(self, seconds: float, count: int) -> None:
        """So many sends, of one turn, were stored and answered."""
        self._observe(RequestCode.SEND_MESSAGE_V2, ResponseCode.SUCCESS, seconds, count)

    def _refuse_all(self, turn: _Turn, error: Exception) -> None:
        for peer, wanted in turn.wanted:
            peer.settle(len(wanted))
            for request, *_ in wanted:
                self._refuse(peer, request, error)

    def _refuse(self, peer: Peer, request: Command, error: Exception) -> None:
        if not isinstance(error, EmberError):
            log.error("send failed peer=%s opaque=%d", peer.peer, request.opaque, exc_info=error)
        refusal = self._answers.refused(request, error)
        self._observe(request.code, refusal.code, 0.0)
        if not request.is_oneway:
            peer.send(refusal)

    def _count(self, drafts: Sequence[DraftFields], submitted: Submitted, milliseconds: float) -> None:
        sizes: dict[tuple[bytes, int], list[int]] = {}
        for draft, size in zip(drafts, submitted.sizes, strict=True):
            place = draft[:2]  # topic and queue
            if place in sizes:
                sizes[place].append(size)
            else:
                sizes[place] = [size]
        for (topic, queue), each in sizes.items():
            self._statistics.count_put(topic.decode(), queue, len(each), sum(each))
            self._statistics.count_put_time(topic.decode(), queue, int(milliseconds))

    def _note_requester(self, peer: Peer, sent: Sent) -> None:
        """Remember whom the reply to this message goes to: its heartbeat may come later than the reply."""
        client = find_property(sent.drafts[0][3], _REPLY_TO)
        if client:
            self._membership.note_requester(client.decode(errors="replace"), peer)

    def _keep_half(self, peer: Peer, half: SentHalf) -> None:
        """The next draft of this turn begins a transaction."""
        self._turn.halves[len(self._turn.drafts)] = half
        self.note_half_sender(half.group, peer)

    def note_half_sender(self, group: str, peer: Peer) -> None:
        """Remember whom to ask how a transaction of this producer group ended."""
        self._membership.note_half_sender(group, peer)
