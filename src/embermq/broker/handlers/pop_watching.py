"""PEEK, NOTIFICATION and POLLING_INFO: those who look, and take nothing."""

from __future__ import annotations

from embermq.broker.handlers.pop import answer_of
from embermq.broker.pop.answering import Answering
from embermq.broker.pop.asks import parse_watch
from embermq.broker.pop.polls import Parking, PopPolls
from embermq.broker.pop.revive_log import ReviveLog
from embermq.broker.pop.taking import PopReader
from embermq.broker.settings import BrokerSettings
from embermq.broker.tables import Tables
from embermq.clock import Clock
from embermq.format.command import Command, make_answer
from embermq.model.codes import RequestCode, ResponseCode
from embermq.rpc.peer import Peer
from embermq.rpc.router import Answer, Handler


class WatchHandlers:
    """Answers those who want to know what a pop would find."""

    def __init__(
        self,
        tables: Tables,
        reader: PopReader,
        revive_log: ReviveLog,
        pops: PopPolls,
        notifications: PopPolls,
        answering: Answering,
        settings: BrokerSettings,
        *,
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._reader = reader
        self._log = revive_log
        self._pops = pops
        self._notifications = notifications
        self._answering = answering
        self.settings = settings  # replaced when one is changed at run time
        self._clock = clock
        notifications.resume = self._resume

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.PEEK_MESSAGE: self.peek,
            RequestCode.NOTIFICATION: self.notify,
            RequestCode.POLLING_INFO: self.count_waiting,
        }

    def peek(self, peer: Peer, request: Command) -> Command:
        """The next messages, which stay where they are."""
        now = self._clock.now_ms()
        ask = parse_watch(request, self._tables, self.settings, now)
        taking = self._reader.peek(ask, pop_time=now, revive_queue=self._log.next_queue())
        if taking.count:
            return answer_of(request, ResponseCode.SUCCESS, taking, remark="FOUND")
        return answer_of(request, ResponseCode.PULL_NOT_FOUND, taking, remark="NO_MESSAGE_IN_QUEUE")

    def count_waiting(self, peer: Peer, request: Command) -> Command:
        """How many pops wait for a queue."""
        ask = parse_watch(request, self._tables, self.settings, self._clock.now_ms())
        return make_answer(request, fields={"pollingNum": str(self._pops.count(*ask.key))})

    def notify(self, peer: Peer, request: Command) -> Answer:
        """Whether there is something to pop; told when there is, or when the time is up."""
        now = self._clock.now_ms()
        ask = parse_watch(request, self._tables, self.settings, now)
        has_messages = self._reader.has_messages(ask, now)
        is_full = False
        if not has_messages and ask.poll_ms > 0:
            parking = self._notifications.park(ask.key, peer, request, None, deadline_ms=ask.deadline_ms)
            if parking is Parking.PARKED:
                return None
            is_full = parking is Parking.FULL
        fields = {"hasMsg": str(has_messages).lower(), "pollingFull": str(is_full).lower()}
        return make_answer(request, fields=fields)

    def _resume(self, peer: Peer, request: Command) -> None:
        """Look again for one that has waited."""
        try:
            answer = self.notify(peer, request)
        except Exception as error:
            answer = self._answering.refuse(peer, request, error)
        if answer is not None:
            self._answering.tell(peer, request, answer)
