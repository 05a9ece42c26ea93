"""POP: messages of any queue of a topic, each with one consumer until it is acknowledged or its time is up."""

from __future__ import annotations

import asyncio

from embermq.broker.pop.answering import Answering
from embermq.broker.pop.asks import Ask, parse_pop
from embermq.broker.pop.giving import Giving
from embermq.broker.pop.order_acks import OrderAcks
from embermq.broker.pop.polls import Parking, PopPolls
from embermq.broker.pop.revive_log import ReviveLog
from embermq.broker.pop.taking import PopReader, Taking
from embermq.broker.settings import BrokerSettings
from embermq.broker.tables import Tables
from embermq.clock import Clock
from embermq.format.command import Command, make_answer
from embermq.format.pop_fields import format_offsets, format_starts
from embermq.model.codes import RequestCode, ResponseCode
from embermq.rpc.fields import find_integer
from embermq.rpc.peer import Peer
from embermq.rpc.router import Answer, Handler

GRACE_MS = 500  # a request that is older than its poll time by more is of a client that has given up
NOTHING = "NO_MESSAGE_IN_QUEUE"


class PopHandlers:
    """Answers POP requests."""

    def __init__(
        self,
        tables: Tables,
        reader: PopReader,
        giving: Giving,
        order_acks: OrderAcks,
        revive_log: ReviveLog,
        polls: PopPolls,
        answering: Answering,
        settings: BrokerSettings,
        *,
        is_possible: bool,
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._reader = reader
        self._giving = giving
        self._order_acks = order_acks
        self._log = revive_log
        self._polls = polls
        self._answering = answering
        self.settings = settings  # replaced when one is changed at run time
        self._is_possible = is_possible
        self._clock = clock
        polls.resume = self._resume

    def routes(self) -> dict[int, Handler]:
        return {RequestCode.POP_MESSAGE: self.pop, RequestCode.POP_ROLLBACK: self.roll_back}

    def pop(self, peer: Peer, request: Command) -> Answer:
        """The answer; None if it comes later: when messages do, or when the disk has the checkpoint."""
        now = self._clock.now_ms()
        if not find_integer(request.fields, "bornTime"):
            request = _born(request, now)
        if self._is_late(request, now):
            return make_answer(request, ResponseCode.POLLING_TIMEOUT, remark="the poll time is over; pop again")
        if not self._is_possible:
            remark = f"pops need the timer of broker {self.settings.name!r}; set timers (timerWheelEnable) to true"
            return make_answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
        ask = parse_pop(request, self._tables, self.settings, now)
        taking = self._reader.take(ask, pop_time=now, revive_queue=self._log.next_queue())
        if taking.count == 0:
            return self._wait(peer, request, ask, taking)
        answer = answer_of(request, ResponseCode.SUCCESS, taking, remark="FOUND")
        if ask.is_fifo:
            self._answering.tell_after(self._order_acks.secure(), peer, request, answer)
        else:
            self._giving.give(taking, lambda error: self._answering.tell(peer, request, answer, error))
        if taking.rest > 0:
            self._polls.wake(*ask.key)
        return None

    def roll_back(self, peer: Peer, request: Command) -> Answer:
        """Have what is popped kept in the revive topic again, and not in a database: it is never anywhere else."""
        return make_answer(request)

    def _wait(self, peer: Peer, request: Command, ask: Ask, taking: Taking) -> Answer:
        parking = Parking.OVER
        if ask.poll_ms > 0:
            parking = self._polls.park(ask.key, peer, request, ask.accept, deadline_ms=ask.deadline_ms)
        match parking:
            case Parking.PARKED:
                if taking.rest > 0:  # nothing that was looked at was wanted, but there is more to look at
                    asyncio.get_running_loop().call_soon(self._polls.wake, *ask.key)
                return None
            case Parking.FULL:
                return answer_of(
                    request, ResponseCode.POLLING_FULL, taking, remark="too many pops wait; try again later"
                )
        return answer_of(request, ResponseCode.POLLING_TIMEOUT, taking, remark=NOTHING)

    def _resume(self, peer: Peer, request: Command) -> None:
        """Pop again for one that has waited."""
        try:
            answer = self.pop(peer, request)
        except Exception as error:
            answer = self._answering.refuse(peer, request, error)
        if answer is not None:
            self._answering.tell(peer, request, answer)

    def _is_late(self, request: Command, now: int) -> bool:
        born, poll = find_integer(request.fields, "bornTime") or now, find_integer(request.fields, "pollTime") or 0
        return now - born - poll > GRACE_MS


def _born(request: Command, now: int) -> Command:
    """The same request with the time of its arrival, by which it is known how long it has waited."""
    fields = {**request.fields, "bornTime": str(now)}
    return Command(request.code, fields, request.body, request.opaque, request.flag, form=request.form)


def answer_of(request: Command, code: int, taking: Taking, *, remark: str) -> Command:
    """What a pop, or a look at what it would give, is told."""
    fields = {
        "popTime": str(taking.pop_time),
        "invisibleTime": str(taking.ask.invisible_ms),
        "reviveQid": str(taking.revive_queue),
        "restNum": str(taking.rest),
        "startOffsetInfo": format_starts(taking.queues),
        "msgOffsetInfo": format_offsets(taking.queues),
    }
    if taking.ask.is_fifo and taking.count:
        fields["orderCountInfo"] = ";".join(taking.order_counts)
    return make_answer(request, code, fields, b"".join(taking.parts), remark=remark)
