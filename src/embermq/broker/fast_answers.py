"""Answers to plain SENDs by a kernel, many at a time. Only loaded where kernels are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from embermq.broker.send_answers import SendAnswers
from embermq.errors import FlushTimeout
from embermq.format.command import Command, decode_command, encode_command, make_answer
from embermq.format.frame import split_frames
from embermq.kernels.answers import ALL_DONE, NOT_PLAIN, AnswerTexts, answer_rows, write_shares
from embermq.kernels.send_rows import (
    FORM,
    ONEWAY,
    OPAQUE,
    POSITION,
    QUEUE,
    QUEUE_OFFSET,
    UNIQUE_AT,
    UNIQUE_SIZE,
    SendRows,
)
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import Host
from embermq.rpc.peer import Peer

ROOM: Final = 1024 * 1024  # bytes written by one call, which is many answers


class FastAnswers:
    """Makes the answers that SendAnswers would make."""

    def __init__(self, answers: SendAnswers) -> None:
        self._answers = answers
        self._texts: dict[tuple[str, Host], AnswerTexts] = {}
        self._out = np.zeros(ROOM, np.uint8)
        self._out_address = int(self._out.ctypes.data)

    def stored(self, shares: Sequence[tuple[Peer, int]], rows: SendRows) -> list[tuple[Peer, int, bytes]]:
        """For every peer how many messages it sent, and the frames that say where they are.

        Of each, the number of the row behind its last is given.
        """
        texts = self._texts_of(shares[0][0])
        table = np.array([(end, 0) for _, end in shares], np.int64)
        done = 0
        if all(self._texts_of(peer) is texts for peer, _ in shares):
            done, _ = write_shares(
                rows.rows_address, rows.capacity, table, rows.scratch_address, rows.scratch_size,
                texts.address, texts.size, self._out_address, ROOM,
            )  # fmt: skip
        answers: list[tuple[Peer, int, bytes]] = []
        first = begin = 0
        written = self._out[: int(table[done - 1, 1]) if done else 0].tobytes()
        for number, (peer, end) in enumerate(shares):
            if number < done:
                after = int(table[number, 1])
                answers.append((peer, end - first, written[begin:after]))
                begin = after
            else:
                answers.append((peer, end - first, self.stored_of(peer, rows, first, end)))
            first = end
        return answers

    def _texts_of(self, peer: Peer) -> AnswerTexts:
        key = (self._answers.region, peer.local)  # how a peer reaches us is all that our address depends on
        texts = self._texts.get(key)
        if texts is None:
            texts = self._texts[key] = AnswerTexts(self._answers.region, self._answers.host_text(peer).encode())
        return texts

    def stored_of(self, peer: Peer, rows: SendRows, begin: int, end: int) -> bytes:
        """The frames that say where the messages of rows [begin, end) are, all of them of one peer."""
        texts = self._texts_of(peer)
        parts: list[bytes] = []
        while True:
            done, size, reason = answer_rows(rows, begin, end, texts, self._out_address, ROOM)
            parts.append(self._out[:size].tobytes())
            begin += done
            if reason == ALL_DONE:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            if reason == NOT_PLAIN or done == 0:
                parts.append(self._stored_plainly(rows, begin, self._answers.host_text(peer)))
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

    def _stored_plainly(self, rows: SendRows, number: int, host: str) -> bytes:
        row = rows.rows[number].tolist()
        if row[ONEWAY]:
            return b""
        unique = rows.scratch[row[UNIQUE_AT] : row[UNIQUE_AT] + row[UNIQUE_SIZE]].tobytes()
        fields = {
            "queueId": str(row[QUEUE]),
            "msgId": f"{host}{row[POSITION]:016X}",
            "queueOffset": str(row[QUEUE_OFFSET]),
            "transactionId": unique.decode(),
        }
        request = Command(RequestCode.SEND_MESSAGE_V2, {}, b"", row[OPAQUE], form=row[FORM])
        return encode_command(make_answer(request, ResponseCode.SUCCESS, fields | self._answers.always))


def _change(frames: bytes, change: Callable[[Command], Command]) -> bytes:
    """The frames of answers, each made anew."""
    split, _ = split_frames(frames)
    return b"".join(encode_command(change(decode_command(frame))) for frame in split)
