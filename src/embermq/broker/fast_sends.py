"""Plain SENDs by kernels: from received bytes to records, queues, index and answers, many in one call.

    connections that have something ─→ served by one kernel (fast_serving.py), as far as that goes
    what it leaves, and what comes by `take` ─→ rows ─→ at the end of the turn: offsets, records, queues, index, answers

It stops at whatever is not plain, and the ordinary handlers take that. Both keep their messages until the end of the
turn, but never at the same time: who gets something while the other has something has that put first, so that
messages are stored in the order they came in. Only loaded where kernels are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from embermq.broker.fast_answers import FastAnswers, StoredTurn, WrittenShares
from embermq.broker.fast_parking import FastParking
from embermq.broker.fast_peers import FastPeer, FastPeers
from embermq.broker.fast_serving import FastServing, Left
from embermq.broker.fast_topics import FastTopics
from embermq.broker.handlers.send import SendHandlers
from embermq.broker.intake import Intake, born_of
from embermq.broker.puts import Puts
from embermq.broker.stages import Stages
from embermq.broker.statistics import BrokerStatistics
from embermq.errors import FlushTimeout
from embermq.format.frame import FrameLimits
from embermq.format.record import BLANK_SIZE
from embermq.kernels import serving as known
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.send_rows import FIRST_DRAFT
from embermq.kernels.sends import ROWS_FULL, SCRATCH_FULL
from embermq.kernels.serving import ALL_SERVED, NOT_SENT, ONLY_READ, ONLY_STORED
from embermq.kernels.turn import (
    BATCH_ROOM,
    BODY_LIMIT,
    COUNT,
    DRAFT_COUNT,
    FRAME_LIMIT,
    HALVES,
    HEADER_LIMIT,
    PARKING,
    PROPERTIES_LIMIT,
    QUEUES,
    REASON,
    RECEIVED,
    RECEIVED_SIZE,
    RECORD_EXTRA,
    SENDERS,
    TEXT_END,
    TOPIC_COUNT,
    TOPICS,
    TOPICS_SIZE,
    TurnMemory,
    take_sends,
)
from embermq.log.table_append import LARGEST_HEAD, DraftTable, Piece, TableAppended, largest_body
from embermq.rpc.peer import Peer
from embermq.store.store import Store

log = logging.getLogger(__name__)

MOST_ROWS: Final = 4096
MOST_DRAFTS: Final = 16_384  # with batches, there are more of them
TEXT_ROOM: Final = 2 * 1024 * 1024  # for the properties of a turn
LARGEST_TURN: Final = 1024 * 1024  # bytes received, after which a turn is put at once
MOST_PEERS: Final = 512  # that are served together
NS: Final = 1_000_000_000
_STORE_HOST: Final = 0  # the first of a turn's hosts


class Received(Protocol):
    """Where connections receive."""

    address: int
    size: int
    end: int
    read_size: int  # bytes received from one connection at once, at most
    view: memoryview
    make_room: Callable[[], None]

    def keep(self, end: int) -> None: ...
    def free(self) -> None: ...


class Share(NamedTuple):
    """A peer, and the number of the row behind its last; its first is behind the last of the peer before it."""

    peer: FastPeer
    end: int


class FastSends:
    """Takes plain SENDs from connections. All of it runs in the event loop."""

    def __init__(
        self,
        store: Store,
        received: Received,
        intake: Intake,
        handlers: SendHandlers,
        puts: Puts,
        statistics: BrokerStatistics,
        answers: FastAnswers,
        *,
        stages: Stages,
        frame_limits: FrameLimits,
        now: Callable[[], float],
    ) -> None:
        self._stages = stages
        self._store = store
        self._received = received
        self._intake = intake
        self._handlers = handlers
        self._puts = puts
        self._statistics = statistics
        self._answers = answers
        self._now = now
        self._topics = FastTopics(intake, store.queue_table())
        self._parking = FastParking(intake, handlers)
        self._memory = memory = TurnMemory(MOST_ROWS, TEXT_ROOM, MOST_DRAFTS)
        self._largest_body = largest_body(store.log_files().file_size)
        memory.numbers[PARKING] = self._parking.address
        memory.numbers[BATCH_ROOM] = store.log_files().file_size - BLANK_SIZE
        self._own_host = store.store_host()
        memory.hosts[_STORE_HOST] = address_of(self._own_host), len(self._own_host)
        memory.numbers[RECEIVED], memory.numbers[RECEIVED_SIZE] = received.address, received.size
        memory.numbers[FRAME_LIMIT], memory.numbers[HEADER_LIMIT] = frame_limits
        self._peers = FastPeers()
        self._serving = FastServing(memory, self._peers, answers, most_peers=MOST_PEERS, read_size=received.read_size)
        self._shares: list[Share] = []
        self._hosts: list[bytes] = []  # of the turn's senders, kept where they are
        self._size = 0  # bytes that the turn has received
        self._read_seconds = 0.0
        self._suffix = b""
        self._source = self._table()
        received.make_room = self.put_turn
        handlers.before = self.put_turn
        statistics.more_puts = store.queue_table().take_counts

    def take(self, peer: FastPeer, begin: int, end: int) -> int:
        """Take the plain SENDs at the beginning of what was received; how many bytes they take."""
        if not self._shares and not self._start_turn():
            return 0
        began = self._now()
        born = born_of(peer.peer)
        memory = self._memory
        taken = take_sends(memory.address, begin, end, born.address, len(born.host), born.flag)
        if taken:
            self._hosts.append(born.host)
            self._expect(peer, memory.numbers[COUNT])
            self._size += taken
            self._received.keep(begin + taken)
            self._read_seconds += self._now() - began
            if self._size >= LARGEST_TURN:
                self.put_turn()
        elif self._shares and memory.numbers[REASON] in (ROWS_FULL, SCRATCH_FULL):
            self.put_turn()  # what could not be read only had no room
            self._received.keep(begin)
            return self.take(peer, begin, end)
        return taken

    def add(self, peer: FastPeer, descriptor: int) -> None:
        """Know a connection by its socket."""
        self._peers.add(peer, descriptor, self._answers.texts_of(peer))

    def remove(self, peer: FastPeer) -> None:
        self._peers.remove(peer)

    def receive(self, peers: Sequence[FastPeer]) -> None:
        """Read from connections that have something, and serve the plain SENDs; the rest is fed to them."""
        self.put_turn()
        if not self._start_turn():
            for peer in peers:
                peer.read()
            return
        self._handlers.put_turn()
        slots = self._peers.slots_of(peers, self._now())
        left: list[Left] = []
        first = 0
        while first < len(peers):
            first = self._serve(peers, slots, first, left)
        for peer, got, data in left:
            if got > 0:
                peer.feed(data)
            elif got < 0:
                peer.read_failed(-got)
            else:
                peer.input_ended()

    def _serve(self, peers: Sequence[FastPeer], slots: Table, first: int, left: list[Left]) -> int:
        """Serve peers from number `first` on, as many as one call can; the number of the next."""
        serving, received, began = self._serving, self._received, self._now()
        numbers = serving.numbers
        serving.begin(first, received.end)
        source = self._find_source()
        pieces = self._store.offer_log(source, lambda quick: serving.run(source, slots, quick))
        if pieces is None:
            serving.run(source, slots, None)
        end = numbers[known.NEXT_PEER]
        if numbers[known.ROUNDS]:
            serving.take_parts(peers[end:], received.view)
        if numbers[known.TO_LOOK_AT]:
            left += serving.take_left(peers[first:end], received.view)
        else:
            for peer in peers[first:end]:
                peer.part = b""
        self._read_seconds += numbers[known.READ_NS] / NS
        if numbers[known.STORED]:
            self._count_served()
        if numbers[known.SENDS]:
            self._count(began, numbers[known.SENDS])
        if serving.status != ALL_SERVED:
            received.keep(numbers[known.FREE_AT])
            self._shares = [Share(*each) for each in serving.shares(peers)]
            self._finish_served(pieces or [])
        assert end > first, f"no room to receive from a peer in {received.size} bytes"
        return end

    def _count_served(self) -> None:
        stages, numbers = self._stages, self._serving.numbers
        stored, times = numbers[known.STORED], numbers[known.TIMES]
        stages.read.count(stored, self._read_seconds, times)
        stages.store.count(stored, numbers[known.STORE_NS] / NS, times)
        if self._serving.status == ONLY_STORED:
            stored, times = stored - len(self._serving.last_records()), times - 1
        stages.answer.count(stored, numbers[known.ANSWER_NS] / NS, times)
        self._read_seconds = 0.0

    def _find_source(self) -> DraftTable:
        """Where messages come from; the same as long as it is."""
        source, topics = self._source, self._topics
        if (
            source.topics is not topics.names.rows
            or source.queues is not topics.queues
            or source.suffix != self._suffix
        ):
            source = self._source = self._table()
        return source

    def _finish_served(self, pieces: list[Piece]) -> None:
        """Do what a kernel left undone."""
        serving = self._serving
        self._size = self._received.end
        if serving.status == ONLY_READ:
            self.put_turn()
            return
        if serving.status == NOT_SENT:
            self._answers.write_rest(self._shares, serving.sent_shares())
        else:
            began = self._now()
            table, records = self._table(), serving.last_records()
            error = None if len(records) == len(table) else AssertionError("a kernel refused what another one made")
            self._answer(TableAppended(pieces, records, 0, error), table, began, serving.written())
            self._stages.answer.count(len(records), self._now() - began)
        self._end_turn()

    def _start_turn(self) -> bool:
        """Make ready for the first sender of a turn; False if messages must go the ordinary way for now."""
        if not self._puts.wait_until_free():
            return False
        intake, topics, numbers = self._intake, self._topics, self._memory.numbers
        intake.refresh()
        topics.refresh()
        self._suffix = intake.suffix_bytes
        numbers[BODY_LIMIT] = min(intake.max_body, self._largest_body)
        numbers[PROPERTIES_LIMIT] = intake.max_properties - len(self._suffix)
        numbers[RECORD_EXTRA] = LARGEST_HEAD + len(self._suffix)
        numbers[TOPICS], numbers[TOPICS_SIZE] = topics.by_name.address, topics.by_name.size
        numbers[QUEUES], numbers[TOPIC_COUNT] = topics.queues_address, len(topics.queues)
        self._parking.refresh(topics)
        self._answers.refresh(self._peers)
        return not topics.is_empty

    def _expect(self, peer: FastPeer, end: int) -> None:
        """Keep what this turn owes to `peer`: answers to the rows before `end`. The first to come has the turn put."""
        if not self._shares:
            self._handlers.put_turn()
            asyncio.get_running_loop().call_soon(self.put_turn)
        self._shares.append(Share(peer, end))

    def put_turn(self) -> None:
        """Store what this turn brought, and have it answered when it is safe."""
        shares = self._shares
        if not shares:
            return
        began = self._now()
        table = self._table()
        try:
            appended = self._store.submit_table(table)
        except Exception as error:
            appended = None
            failure = error
        stored = self._now()
        if appended is None:
            self._refuse(shares, 0, failure)
        else:
            self._answer(appended, table, began)
        self._stages.read.count(len(table), self._read_seconds)
        self._stages.store.count(len(table), stored - began)
        self._stages.answer.count(len(table), self._now() - stored)
        self._end_turn()

    def _end_turn(self) -> None:
        numbers = self._memory.numbers
        numbers[COUNT] = numbers[DRAFT_COUNT] = numbers[TEXT_END] = numbers[SENDERS] = numbers[HALVES] = 0
        self._size, self._read_seconds = 0, 0.0
        self._shares = []
        self._hosts = []
        self._received.free()

    def _table(self) -> DraftTable:
        received, memory, topics = self._received, self._memory, self._topics
        rows, drafts, sends = memory.numbers[COUNT], memory.numbers[DRAFT_COUNT], memory.sends
        firsts = sends.rows[:rows, FIRST_DRAFT] if drafts > rows else None
        return DraftTable(
            memory.drafts[:drafts], received.address, received.size, sends.scratch_address, sends.scratch_size,
            self._size + memory.numbers[TEXT_END], topics.names.rows, topics.queues,
            memory.hosts[: memory.numbers[SENDERS] + 1], _STORE_HOST, self._suffix, firsts=firsts,
        )  # fmt: skip

    def _answer(
        self,
        appended: TableAppended,
        table: DraftTable,
        began: float,
        known_answers: tuple[int, WrittenShares] | None = None,
    ) -> None:
        count, shares = 0, self._shares
        if appended.pieces:
            sends, records = self._memory.sends, appended.records
            stored = StoredTurn(sends, table, records, self._store.queue_table())
            if self._memory.numbers[HALVES]:
                self._parking.note_halves(shares, stored, self._received.view, self._topics)
            count, written = known_answers or self._answers.write(
                self._peers, shares, stored, is_sending=not self._puts.is_sync
            )
            if written.is_sent:
                self._count(began, count)
            else:
                answers = self._answers.frames(_until(shares, count), written, sends, records)
                for peer, owed, _ in answers:
                    peer.owe(owed)
                self._puts.await_disk(appended.pieces[-1].end, lambda error: self._finish(answers, error, began, count))
        if appended.error is not None:
            self._refuse(shares, count, appended.error)

    def _finish(
        self, answers: list[tuple[Peer, int, bytes]], error: Exception | None, began: float, sends: int
    ) -> None:
        """Send answers that waited for the disk."""
        for peer, count, frames in answers:
            peer.settle(count)
            if error is None:
                if frames:
                    peer.write(frames)
            elif isinstance(error, FlushTimeout):
                peer.write(self._answers.unconfirmed(frames, error))
            else:
                peer.write(self._answers.refused(frames, error))
        self._count(began, sends)

    def _count(self, began: float, sends: int) -> None:
        seconds = self._now() - began
        self._statistics.note_put_time(int(seconds * 1000))
        self._handlers.count_turn(seconds, sends)

    def _refuse(self, shares: list[Share], first: int, error: Exception) -> None:
        """Answer the rows from `first` on with an error."""
        log.error("sends refused count=%d reason=%s", shares[-1].end - first, error)
        begin = 0
        for peer, end in shares:
            if end > first:
                begin = max(begin, first)
                frames = self._answers.refusals(self._memory.sends, begin, end, error)
                if frames:
                    peer.write(frames)
            begin = end


def _until(shares: list[Share], count: int) -> list[Share]:
    """The shares in the rows before `count`."""
    if shares[-1].end <= count:
        return shares
    whole = [share for share in shares if share.end <= count]
    cut = shares[len(whole)]
    return whole if whole and whole[-1].end == count else [*whole, Share(cut.peer, count)]
