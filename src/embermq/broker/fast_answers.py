"""Answers to plain SENDs by a kernel, many at a time. Only loaded where kernels are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from embermq.broker.fast_peers import FastPeer, FastPeers
from embermq.broker.send_answers import NO_FIELDS, SendAnswers, Wanted
from embermq.errors import FlushTimeout
from embermq.format.command import ONEWAY as ONEWAY_FLAG
from embermq.format.command import Command, decode_command, encode_command, make_answer
from embermq.format.frame import split_frames
from embermq.kernels.answers import ALL_DONE, NOT_PLAIN, AnswerTexts, answer_rows
from embermq.kernels.columns import RECORD_POSITION
from embermq.kernels.compiling import Table
from embermq.kernels.send_rows import (
    ASKED,
    ASKED_SIZE,
    ASKS,
    ASKS_TIME,
    DRAFTS,
    FIRST_DRAFT,
    FORM,
    ONEWAY,
    OPAQUE,
    QUEUE,
    QUEUE_OFFSET,
    UNIQUE_AT,
    UNIQUE_SIZE,
    SendRows,
)
from embermq.kernels.shares import SHARE_END, SHARE_SENT, answer_turn
from embermq.log.queue_table import QueueTable
from embermq.log.table_append import DraftTable
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import Host
from embermq.rpc.peer import Peer
from embermq.store.writer import Submitted

ROOM: Final = 1024 * 1024  # bytes written by one call, which is many answers


class StoredTurn(NamedTuple):
    """The messages of a turn, where they came from and where they are now."""

    rows: SendRows
    table: DraftTable
    records: Table
    numbers: QueueTable


class WrittenShares(NamedTuple):
    """The answers of a turn: of how many peers they are written, and whether they are sent."""

    shares: Table
    written: int
    is_sent: bool


class FastAnswers:
    """Makes the answers that SendAnswers would make."""

    def __init__(self, answers: SendAnswers) -> None:
        self._answers = answers
        self._region = answers.region
        self._texts: dict[tuple[str, Host], AnswerTexts] = {}
        self._out = np.zeros(ROOM, np.uint8)
        self.address = int(self._out.ctypes.data)

    def refresh(self, peers: FastPeers) -> None:
        """Know what answers say now; to be called before something is answered."""
        if self._answers.region is not self._region:
            self._region = self._answers.region
            peers.tell_texts(self.texts_of)

    def write(
        self, peers: FastPeers, shares: Sequence[tuple[FastPeer, int]], stored: StoredTurn, *, is_sending: bool
    ) -> tuple[int, WrittenShares]:
        """Tell rows where their messages are, write the answers that say so and, if all can be, send them at once.

        Of each peer, the number of the row behind its last is given. Returns how many rows were told, and the answers.
        What a socket does not take is given to its connection.
        """
        rows, table, numbers = stored.rows, stored.table, stored.numbers
        made = np.array([(end, peer.slot, is_sending and peer.is_free, 0, 0) for peer, end in shares], np.int64)
        told, count, unsent = answer_turn(
            rows.rows[: shares[-1][1]], table.drafts, stored.records, table.queues, numbers.address,
            len(numbers.numbers), peers.table, made, rows.scratch_address, rows.scratch_size, self.address, ROOM,
            is_sending,
        )  # fmt: skip
        is_sent = is_sending and count == len(shares)
        if is_sent and unsent:
            self.write_rest(shares, made)
        return told, WrittenShares(made, count, is_sent)

    def write_rest(self, shares: Sequence[tuple[FastPeer, int]], made: Table) -> None:
        """Give what was not sent to the connections, right after a kernel sent the rest."""
        begin = 0
        for (peer, _), row in zip(shares, made.tolist(), strict=True):
            sent, end = row[SHARE_SENT], row[SHARE_END]
            if begin + sent < end:
                peer.write(self._out[begin + sent : end].tobytes())
            begin = end

    def frames(
        self, shares: Sequence[tuple[FastPeer, int]], written: WrittenShares, rows: SendRows, records: Table
    ) -> list[tuple[Peer, int, bytes]]:
        """For every peer how many requests it sent, and the answers to them, right after `write`, which sent none."""
        answers: list[tuple[Peer, int, bytes]] = []
        first = begin = 0
        for number, (peer, end) in enumerate(shares):
            if number < written.written:
                after = int(written.shares[number, SHARE_END])
                frames = self._out[begin:after].tobytes()
                begin = after
            else:
                frames = self._stored_of(peer, rows, first, end, records)
            answers.append((peer, end - first, frames))
            first = end
        return answers

    def texts_of(self, peer: Peer) -> AnswerTexts:
        key = (self._answers.region, peer.local)  # how a peer reaches us is all that our address depends on
        texts = self._texts.get(key)
        if texts is None:
            texts = self._texts[key] = AnswerTexts(self._answers.region, self._answers.host_text(peer).encode())
        return texts

    def _stored_of(self, peer: Peer, rows: SendRows, begin: int, end: int, records: Table) -> bytes:
        """The frames that say where the messages of rows [begin, end) are, all of them of one peer."""
        texts = self.texts_of(peer)
        parts: list[bytes] = []
        while True:
            done, size, reason = answer_rows(rows, begin, end, records, texts, self.address, ROOM)
            parts.append(self._out[:size].tobytes())
            begin += done
            if reason == ALL_DONE:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            if reason == NOT_PLAIN or done == 0:
                parts.append(self._stored_plainly(peer, rows, begin, records))
                begin += 1

    def unconfirmed(self, frames: bytes, error: FlushTimeout) -> bytes:
        """The same answers, saying that the disk has not confirmed it."""
        return _change(
            frames,
            lambda answer: make_answer(answer, ResponseCode.FLUSH_DISK_TIMEOUT, answer.fields, remark=str(error)),
        )

    def refused(self, frames: bytes, error: Exception) -> bytes:
        """Refusals instead of these answers."""
        return _change(frames, lambda answer: self._answers.refused(answer, error))

    def refusals(self, rows: SendRows, begin: int, end: int, error: Exception) -> bytes:
        """Refusals of rows [begin, end), which are not stored."""
        requests = [_request(row) for row in rows.rows[begin:end].tolist() if not row[ONEWAY]]
        return b"".join(encode_command(self._answers.refused(request, error)) for request in requests)

    def _stored_plainly(self, peer: Peer, rows: SendRows, number: int, records: Table) -> bytes:
        row = rows.rows[number].tolist()
        first, count = row[FIRST_DRAFT], row[DRAFTS]
        unique = rows.scratch[row[UNIQUE_AT] : row[UNIQUE_AT] + row[UNIQUE_SIZE]].tobytes().decode()
        fields = NO_FIELDS
        if row[ASKS] == ASKS_TIME:
            handle = rows.scratch[row[ASKED] : row[ASKED] + row[ASKED_SIZE]].tobytes().decode()
            fields = {"recallHandle": handle}
        wanted = Wanted(_request(row), 0, count, row[QUEUE], unique, fields)
        positions: list[int] = records[first : first + count, RECORD_POSITION].tolist()
        return self._answers.stored(peer, [wanted], Submitted([row[QUEUE_OFFSET]], positions, [], 0, 0))


def _request(row: Sequence[int]) -> Command:
    """As much of a request as its answer depends on."""
    flag = ONEWAY_FLAG if row[ONEWAY] else 0
    return Command(RequestCode.SEND_MESSAGE_V2, {}, b"", row[OPAQUE], flag, form=row[FORM])


def _change(frames: bytes, change: Callable[[Command], Command]) -> bytes:
    """The frames of answers, each made anew."""
    split, _ = split_frames(frames)
    return b"".join(encode_command(change(decode_command(frame))) for frame in split)
