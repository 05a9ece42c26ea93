"""Batches for the tests of kernels: plain ones, spoilt ones, and what a kernel makes of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import numpy as np

from embermq.format.batch import BatchElement, encode_batch
from embermq.format.command import Command
from embermq.format.frame import BINARY_FORM, JSON_FORM
from embermq.format.record import DraftFields
from embermq.kernels import columns as draft
from embermq.kernels import send_rows as column
from embermq.kernels import turn
from embermq.kernels.byte_table import ByteTable
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.placing import QUEUES_WIDTH
from embermq.kernels.topics import TopicTable
from tests.unit.kernels.sent_frames import BATCH_CODE, golden_sends, send

TOPIC: Final = "orders"
QUEUES: Final = 4
HOST: Final = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
EXTRA: Final = 500  # more than any record of these has besides its body and properties
FRAME_LIMIT: Final = 1 << 24

# What batches and their messages have for properties, to hurt.
TEXTS: Final = (
    *(b"UNIQ_KEY\x01", b"UNIQ_KEY\x01\x02", b"XUNIQ_KEY\x01y\x02", b"UNIQ_KEY", b"UNIQ_KEY\x01z\x02", b"WAIT\x01"),
    *(b"WAIT\x01\x02", b"WAIT\x01false\x02", b"WAIT", b"XWAIT\x01true\x02", b"WAIT\x02", b"\x01", b"\x02", b"\x02\x02"),
    *(b"TAGS\x01TagB\x02", b"KEYS\x01a b\x02", b"\x01v\x02", b"name\x01\x02", b"DELAY\x013\x02", b"TIMER_DELAY_MS"),
    *(b"TRAN_MSG\x01true\x02", b"POP_CK\x01x\x02", b"INNER_NUM\x013\x02", b"REPLY_TO_CLIENT\x01c\x02", b"MSG_REGION"),
    *(b"__RMQ.TRANSIENT.x\x01y\x02", b"MSG_REGION\x01other\x02", b"TRACE_ON\x01false\x02", b"CLUSTER\x01c\x02"),
    *("größe\x01中😀\x02".encode(), b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xc3", b"\0", b"\x80\x02"),
)  # fmt: skip


def message(number: int = 0, body: bytes = b"body", properties: bytes | None = None) -> BatchElement:
    """A plain message of a batch, as Java's client sends it."""
    text = b"KEYS\x01k%d\x02UNIQ_KEY\x01AC15%08X\x02WAIT\x01true\x02TAGS\x01TagA\x02" % (number, number)
    return BatchElement(number, body, text if properties is None else properties)


def batch_of(
    messages: Sequence[BatchElement] | bytes, form: int = JSON_FORM, *, opaque: int = 5, flag: int = 0, **fields: str
) -> Command:
    """A request with these messages, or with this body."""
    texts = {**send().fields, "i": "UNIQ_KEY\x01AC150000\x02WAIT\x01true\x02", "m": "true", **fields}
    body = messages if isinstance(messages, bytes) else encode_batch(messages)
    return Command(BATCH_CODE, texts, body, opaque, flag, language="JAVA", form=form)


class TurnReader:
    """What kernels make of frames, with the memory of a turn."""

    def __init__(self, *, rows: int = 64, texts: int = 1 << 18, drafts: int = 256, room: int = 1 << 24) -> None:
        self.memory = turn.TurnMemory(rows, texts, drafts)
        self._topics = TopicTable({TOPIC.encode(): 0})
        self._names = ByteTable(TOPIC.encode())
        self._rows: Table = np.arange(QUEUES, dtype=np.int64) * 8
        self.queues: Table = np.array([[int(self._rows.ctypes.data), QUEUES]], np.int64)
        assert self.queues.shape[1] == QUEUES_WIDTH
        numbers = self.memory.numbers
        numbers[turn.FRAME_LIMIT], numbers[turn.HEADER_LIMIT] = FRAME_LIMIT, 1 << 16
        numbers[turn.TOPICS], numbers[turn.TOPICS_SIZE] = self._topics.address, self._topics.size
        numbers[turn.QUEUES], numbers[turn.TOPIC_COUNT] = int(self.queues.ctypes.data), 1
        numbers[turn.BATCH_ROOM], numbers[turn.RECORD_EXTRA] = room, EXTRA

    def limit(self, *, body: int, properties: int) -> None:
        self.memory.numbers[turn.BODY_LIMIT], self.memory.numbers[turn.PROPERTIES_LIMIT] = body, properties

    def clear(self) -> None:
        for number in (turn.COUNT, turn.DRAFT_COUNT, turn.TEXT_END, turn.SENDERS):
            self.memory.numbers[number] = 0

    def take(self, data: bytes) -> int:
        """Take what is plain at the beginning of `data`; how many bytes that is."""
        self.receive(address_of(data) if data else 0, len(data))
        return turn.take_sends(self.memory.address, 0, len(data), address_of(HOST), len(HOST), 0)

    def receive(self, address: int, size: int) -> None:
        self.memory.numbers[turn.RECEIVED], self.memory.numbers[turn.RECEIVED_SIZE] = address, size

    def place(self, rows: int, row_count: int, texts: int, text_size: int, drafts: int, draft_count: int) -> None:
        """Use this memory instead of the turn's own."""
        numbers = self.memory.numbers
        numbers[turn.ROWS], numbers[turn.CAPACITY] = rows, row_count
        numbers[turn.TEXTS], numbers[turn.TEXTS_SIZE] = texts, text_size
        numbers[turn.DRAFTS_AT], numbers[turn.DRAFT_CAPACITY] = drafts, draft_count

    @property
    def reason(self) -> int:
        return self.memory.numbers[turn.REASON]

    def drafts(self, data: bytes, suffix: bytes) -> list[list[DraftFields]]:
        """The drafts of every row that `data` was taken into."""
        numbers = self.memory.numbers
        every = [self._draft(row, data, suffix) for row in self.memory.drafts[: numbers[turn.DRAFT_COUNT]].tolist()]
        found, end = [], 0
        for row in self.memory.sends.rows[: numbers[turn.COUNT]].tolist():
            assert row[column.FIRST_DRAFT] == end, "drafts of a row lie behind those of the one before it"
            end += row[column.DRAFTS]
            found.append(every[row[column.FIRST_DRAFT] : end])
        assert end == len(every)
        return found

    def _draft(self, row: list[int], data: bytes, suffix: bytes) -> DraftFields:
        body_at, text_at = row[draft.DRAFT_BODY_AT], row[draft.DRAFT_PROPERTIES_AT]
        assert 0 <= body_at <= len(data) - row[draft.DRAFT_BODY_SIZE]
        assert 0 <= text_at <= self.memory.numbers[turn.TEXT_END] - row[draft.DRAFT_PROPERTIES_SIZE]
        text = self.memory.sends.scratch[text_at : text_at + row[draft.DRAFT_PROPERTIES_SIZE]].tobytes()
        return (
            TOPIC.encode(), row[draft.DRAFT_QUEUE], data[body_at : body_at + row[draft.DRAFT_BODY_SIZE]],
            text + suffix, row[draft.DRAFT_FLAG], row[draft.DRAFT_SYS_FLAG], row[draft.DRAFT_BORN_TIME], HOST,
            row[draft.DRAFT_RECONSUME_TIMES], row[draft.DRAFT_PREPARED_POSITION],
        )  # fmt: skip


class BatchSpoiler:
    """Makes batches that nobody should send, from a seed."""

    def __init__(self, seed: object) -> None:
        self._chance = Random(f"batches-{seed}")
        golden = [command.data for command in golden_sends() if command.code == BATCH_CODE]
        assert len(golden) > 2
        self._golden = golden

    def command(self, opaque: int = 5) -> Command:
        """A batch that is mostly almost right."""
        chance = self._chance
        form = BINARY_FORM if chance.random() < 0.3 else JSON_FORM
        return batch_of(self._body(), form, opaque=opaque, **self._fields())

    def _fields(self) -> dict[str, str]:
        chance = self._chance
        fields = {"e": str(chance.randrange(QUEUES))}
        if chance.random() < 0.7:
            return fields
        text = b"UNIQ_KEY\x01AC15%04X\x02" % chance.randrange(9999)
        match chance.randrange(6):
            case 0:
                pass
            case 1:
                text = b"WAIT\x01false\x02" + text
            case 2:
                text += chance.choice(TEXTS)
            case 3:
                text = chance.choice(TEXTS) + text
            case 4:
                text += b"WAIT\x01true\x02" + chance.choice(TEXTS)
            case _:
                fields[chance.choice("fghj")] = chance.choice(("0", "1", "-1", "768", "2147483647", "2147483648"))
        return fields | {"i": text.decode(errors="replace")}

    def _body(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.1:
            body = bytearray(chance.choice(self._golden))
        else:
            body = bytearray(encode_batch([self._message() for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 5)))]))
        if chance.random() < 0.3:
            self._spoil(body)
        return bytes(body)

    def _message(self) -> BatchElement:
        chance = self._chance
        body = chance.randbytes(chance.choice((1, 1, 7, 30))) if chance.random() < 0.98 else b""
        found = message(chance.randrange(-(2**31), 2**31) if chance.random() < 0.2 else chance.randrange(99), body)
        text = bytearray(found.properties)
        if chance.random() < 0.2:
            pieces = bytes(text).split(b"\x02")[:-1]
            chance.shuffle(pieces)
            text = bytearray(b"".join(piece + b"\x02" for piece in pieces[: chance.choice((1, 3, 4, 4))]))
        if chance.random() < 0.2:
            at = chance.choice((0, len(text), chance.randrange(len(text) + 1)))
            text[at:at] = chance.choice(TEXTS)
        return found._replace(properties=bytes(text))

    def _spoil(self, body: bytearray) -> None:
        chance = self._chance
        at = chance.randrange(len(body) + 1)
        match chance.randrange(6):
            case 0 if body:
                body[at % len(body)] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 1:
                del body[at : at + chance.choice((1, 1, 2, 20))]
            case 2:
                body[at:at] = chance.randbytes(chance.choice((1, 2, 4)))
            case 3:
                del body[at:]
            case 4:
                body[at : at + 4] = chance.choice((0, 1, 5, 2**31 - 1, 2**31, 2**32 - 1, len(body))).to_bytes(4)
            case _:
                body += bytes(chance.choice((1, 12, 19, 20, 21, 22, 23, 40)))
