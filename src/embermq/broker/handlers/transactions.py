"""END_TRANSACTION: a producer says how its transaction ended. Those of one turn of the event loop are one put.

    commits of the turn, done marks for all of them ─→ log ─→ on disk ─→ answers

A crash between a committed message and its mark is noticed by whoever starts next, see checking.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from embermq.broker.puts import Puts
from embermq.broker.settings import BrokerSettings
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.topics import BrokerTopics
from embermq.broker.transactions.halves import Half, committed_draft, done_drafts, read_half, resumed_draft
from embermq.broker.transactions.open_counts import OpenCounts
from embermq.broker.transactions.open_halves import Open, OpenHalves
from embermq.clock import Clock
from embermq.errors import (
    CorruptRecord,
    EmberError,
    IllegalField,
    OutOfRange,
    RequestError,
    TransactionNotFound,
    TransactionTooLate,
)
from embermq.format.command import Command, make_answer
from embermq.format.message_id import decode_message_id
from embermq.format.record import DraftFields, Record
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC
from embermq.rpc.fields import I32, I64, find_boolean, read_integer, read_text
from embermq.rpc.outcome import make_refusal
from embermq.rpc.peer import Peer
from embermq.rpc.router import CheckTopic, Handler, Observe
from embermq.store.store import Store
from embermq.store.writer import Submitted

log = logging.getLogger(__name__)

UNKNOWN: Final = 0
COMMIT: Final = 8
ROLL_BACK: Final = 12
_ENDS: Final = (str(COMMIT), str(ROLL_BACK))
AGAIN_S: Final = 0.02
LONGEST_WAIT_S: Final = 3.0


class _End(NamedTuple):
    """A transaction that is being ended."""

    peer: Peer
    request: Command
    topic: str
    queue: int
    taken: Open
    began: float
    draft: DraftFields | None  # the committed message; None if there is none, or the log has it
    half: Half | None = None  # as it was read, if it was

    @property
    def is_rollback(self) -> bool:
        return self.request.fields["commitOrRollback"] == _ENDS[1]


class TransactionHandlers:
    """Ends transactions, and takes up again those that were given up."""

    def __init__(
        self,
        store: Store,
        puts: Puts,
        topics: BrokerTopics,
        statistics: BrokerStatistics,
        halves: OpenHalves,
        counts: OpenCounts,
        *,
        is_committed: Callable[[Half], bool],
        settings: Callable[[], BrokerSettings],
        clock: Clock,
        check_topic: CheckTopic,
        observe: Observe,
    ) -> None:
        self._store = store
        self._puts = puts
        self._topics = topics
        self._statistics = statistics
        self._halves = halves
        self._counts = counts
        self._is_committed = is_committed
        self._settings = settings
        self._clock = clock
        self._check_topic = check_topic
        self._observe = observe
        self._turn: list[_End] = []

    def routes(self) -> dict[int, Handler]:
        return {RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume}

    def receive(self, peer: Peer, requests: Sequence[Command]) -> None:
        """Take the ends of one read; each is answered when it is safe."""
        began = asyncio.get_running_loop().time()
        found = [end for request in requests if (end := self._find_end(peer, request, began)) is not None]
        self._end(peer, found)

    def _find_end(self, peer: Peer, request: Command, began: float) -> _End | None:
        """What an end does; None where nothing is left to do, or not yet."""
        try:
            end = self._find_sent(peer, request, began) or self._parse(peer, request, began)
        except Exception as error:
            self._try_again_or_refuse(peer, request, began, error)
            return None
        if end is None:
            self._observe(request.code, ResponseCode.SUCCESS, 0.0)
            self._answer(peer, request)
        return end

    def _try_again_or_refuse(self, peer: Peer, request: Command, began: float, error: Exception) -> None:
        loop = asyncio.get_running_loop()
        if self._is_on_its_way(request) and loop.time() - began < LONGEST_WAIT_S:
            loop.call_later(AGAIN_S, self._take_again, peer, request, began)
        else:
            self._refuse(peer, request, error)

    def _take_again(self, peer: Peer, request: Command, began: float) -> None:
        end = self._find_end(peer, request, began)
        if end is not None:
            self._end(peer, [end])

    def _end(self, peer: Peer, ends: Sequence[_End]) -> None:
        """Have these done with the others of this turn."""
        if not ends:
            return
        if not self._turn:
            asyncio.get_running_loop().call_soon(self._put_turn)
        peer.owe(len(ends))
        self._turn += ends

    def _is_on_its_way(self, request: Command) -> bool:
        """Whether a half message is in a write buffer, and cannot be read before it is in the log's file."""
        log_files, position = self._store.log_files(), request.fields.get("commitLogOffset", "")
        is_number = position.isdecimal() and len(position) < len(str(I64))
        return is_number and log_files.readable_end <= int(position) < log_files.end

    async def resume(self, peer: Peer, request: Command) -> Command:
        """Ask the producers of a transaction again that was given up."""
        try:
            _, position = decode_message_id(read_text(request.fields, "msgId"))
        except CorruptRecord as error:
            raise IllegalField("msgId", "an id with a position in the log is wanted, 32 or 56 digits") from error
        record = self._read(position)
        if record.topic != GIVEN_UP_TOPIC:
            raise TransactionNotFound(
                f"the message at position {position} is of topic {record.topic[:300]!r}; "
                f"only those of {GIVEN_UP_TOPIC} were given up"
            )
        half = read_half(record._replace(topic=HALF_TOPIC))
        if half is None:
            raise TransactionNotFound(f"the message at position {position} does not say where it belongs")
        await self._puts.put([resumed_draft(record)])
        self._counts.add(half.topic, 1)
        return make_answer(request)

    def _find_sent(self, peer: Peer, request: Command, began: float) -> _End | None:
        """What an end does, for less, where the half message is known as it was sent; None if it is not."""
        fields = request.fields
        try:
            how, group = fields["commitOrRollback"], fields["producerGroup"]
            taken = Open(int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"]))
        except (KeyError, ValueError):
            return None
        half = self._halves.find_sent(taken.offset)
        if half is None or half.is_immune or how not in _ENDS or self._topics.find(half.topic) is None:
            return None
        self._check_topic(peer, request, half.topic)
        if not self._halves.take_sent(taken, group):
            return None
        draft = half.committed_draft(taken.position) if how == _ENDS[0] else None
        return _End(peer, request, half.topic, half.queue, taken, began, draft)

    def _parse(self, peer: Peer, request: Command, began: float) -> _End | None:
        """What an end does; None if it is nothing. Raises a RequestError."""
        fields = request.fields
        how = read_integer(fields, "commitOrRollback", limit=I32)
        if how == UNKNOWN:
            return None
        if how not in (COMMIT, ROLL_BACK):
            raise IllegalField("commitOrRollback", f"{how} is none of 8 (commit), 12 (roll back) and 0 (unknown)")
        half = self._find(request)
        self._check_topic(peer, request, half.topic)
        if how == COMMIT:
            self._topics.read(half.topic)  # whoever deleted it does not want the message
        taken = self._halves.take(half)
        if taken is None:
            is_ending = self._halves.is_ending(half.record.offset)
            why = "is being ended or asked about" if is_ending else "was committed, rolled back or given up before"
            raise TransactionNotFound(f"the transaction at offset {half.record.offset} {why}; nothing was changed")
        if taken.offset != half.record.offset:  # one that was put back since: it knows how often
            half = self._halves.read(taken) or half
        is_committed = self._is_committed(half)
        if is_committed and how == ROLL_BACK:
            self._halves.give_back([taken])
            raise TransactionNotFound(f"the transaction at offset {taken.offset} was committed before")
        draft = committed_draft(half) if how == COMMIT and not is_committed else None
        return _End(peer, request, half.topic, half.queue, taken, began, draft, half)

    def _find(self, request: Command) -> Half:
        """The half message that an end is for: the producer must know its place, and be of its group."""
        fields = request.fields
        position, offset = read_integer(fields, "commitLogOffset"), read_integer(fields, "tranStateTableOffset")
        half = read_half(self._read(position))
        if half is None:
            raise TransactionNotFound(
                f"no half message at position {position} of the log; end a transaction where it began"
            )
        group = read_text(fields, "producerGroup")
        if half.group != group:
            raise TransactionNotFound(
                f"the half message at position {position} is of producer group {half.group!r}, not {group!r}; "
                "its own producers end it"
            )
        if half.record.offset != offset:
            raise TransactionNotFound(
                f"the half message at position {position} has offset {half.record.offset}, not {offset}; "
                "send tranStateTableOffset as the answer to the message told it (queueOffset)"
            )
        self._check_time(half, is_asked=bool(find_boolean(fields, "fromTransactionCheck")))
        return half

    def _check_time(self, half: Half, *, is_asked: bool) -> None:
        """Who asks for time before the first check must also keep within it."""
        immunity = half.immunity_ms
        if is_asked or immunity is None:
            return
        limit = max(immunity, self._settings().transaction_timeout_ms)
        age = self._clock.now_ms() - half.record.born_time
        if age > limit:
            raise TransactionTooLate(
                f"the half message at offset {half.record.offset} is {age} ms old, limit {limit} ms "
                "(CHECK_IMMUNITY_TIME_IN_SECONDS, transaction_timeout_ms); its producers will be asked how it ended"
            )

    def _read(self, position: int) -> Record:
        try:
            return self._store.read_record(position)
        except (OutOfRange, CorruptRecord) as error:
            hint = "end a transaction where it began"
            raise TransactionNotFound(f"no half message at position {position}: {error}; {hint}") from error

    def _put_turn(self) -> None:
        turn, self._turn = self._turn, []
        self._put(turn)

    def _put(self, turn: Sequence[_End]) -> None:
        drafts = [end.draft for end in turn if end.draft is not None]
        marks, highest = done_drafts(
            [end.taken.offset for end in turn],
            max_size=self._settings().transaction_mark_size,
            now_ms=self._clock.now_ms(),
            host=self._store.store_host(),
        )

        def done(submitted: Submitted | None, error: Exception | None) -> None:
            if submitted is not None:  # a FlushTimeout says that it is in the log, too
                for offset, named in zip(submitted.offsets[len(drafts) :], highest, strict=True):
                    self._halves.note_mark(offset, named)
                self._settle(turn, submitted)
                return
            assert error is not None
            self._halves.give_back(end.taken for end in turn)
            if isinstance(error, RequestError) and len(turn) > 1:
                self._put_one_by_one(turn)  # one of them is to blame; the others are not
            else:
                self._refuse_all(turn, error)

        self._puts.submit([*drafts, *marks], done)

    def _put_one_by_one(self, turn: Sequence[_End]) -> None:
        for end in turn:
            taken = self._halves.take_at(end.taken.offset)
            if taken is not None:
                self._put([end])

    def _settle(self, turn: Sequence[_End], submitted: Submitted) -> None:
        reads: dict[tuple[Peer, int, float], int] = {}
        for end in turn:
            if end.half is None:
                self._halves.forget_sent(end.taken.offset)
            else:
                self._halves.forget(end.half, end.taken.offset)
            self._answer(end.peer, end.request)
            read = end.peer, end.request.code, end.began
            reads[read] = reads.get(read, 0) + 1
        now = asyncio.get_running_loop().time()
        for (peer, code, began), count in reads.items():
            peer.settle(count)
            self._observe(code, ResponseCode.SUCCESS, now - began, count)
        self._count(turn, submitted)

    def _count(self, turn: Sequence[_End], submitted: Submitted) -> None:
        for topic, count in Counter([end.topic for end in turn]).items():
            self._counts.add(topic, -count)
        committed = [(end.topic, end.queue) for end in turn if end.draft is not None]
        self._counts.committed.update([topic for topic, _ in committed])
        if len(committed) < len(turn):
            self._counts.rolled_back.update([end.topic for end in turn if end.is_rollback])
        sizes: dict[tuple[str, int], list[int]] = {}
        for place, size in zip(committed, submitted.sizes, strict=False):
            sizes.setdefault(place, []).append(size)
        for place, each_size in sizes.items():
            self._statistics.count_put(*place, len(each_size), sum(each_size))

    def _answer(self, peer: Peer, request: Command) -> None:
        if not request.is_oneway:
            peer.send(make_answer(request))

    def _refuse_all(self, turn: Sequence[_End], error: Exception) -> None:
        for end in turn:
            end.peer.settle(1)
            self._refuse(end.peer, end.request, error)

    def _refuse(self, peer: Peer, request: Command, error: Exception) -> None:
        if not isinstance(error, EmberError):
            log.error("end of a transaction failed peer=%s fields=%s", peer.peer, dict(request.fields), exc_info=error)
        elif request.is_oneway:
            log.warning("end of a transaction refused peer=%s reason=%s", peer.peer, error)
        refusal = make_refusal(request, error)
        self._observe(request.code, refusal.code, 0.0)
        if not request.is_oneway:
            peer.send(refusal)
