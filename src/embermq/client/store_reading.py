"""The files of a broker's store, read through the broker: EmberMQ's brokers alone, for administrators. It waits.

A file is asked for in pieces, several at a time. Who reads on where they stopped finds the next pieces on their way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from embermq.client.answers import check_answer
from embermq.client.blocking import BlockingConnection, BrokerLine
from embermq.errors import CorruptRecord, MessageNotFound, Refused
from embermq.format.command import Command
from embermq.format.store_body import QueueSpan, StoreEntry, decode_folders, decode_queues
from embermq.model.codes import RequestCode

PIECE_SIZE: Final = 1 << 20
MOST_AHEAD: Final = 4 << 20  # bytes that are on their way before they are wanted


class StoreLook(NamedTuple):
    """What a broker tells of its store: the log may be read up to `log_end`, and has all messages of the queues."""

    broker_name: str
    log_begin: int
    log_end: int
    queues: tuple[QueueSpan, ...]


class BrokerStore:
    """One broker's store."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def look(self, topics: Collection[str] = ()) -> StoreLook:
        """How far it may be read, and its queues: all, or those of some topics. Raises NotPermitted or ReadLost."""
        what = "the state of its store"
        fields = {"topics": ";".join(sorted(topics))} if topics else {}
        answer = self._line.call(RequestCode.LOOK_AT_STORE, fields, what=what)
        try:
            begin, end = int(answer.fields["logBegin"]), int(answer.fields["logEnd"])
            return StoreLook(answer.fields["brokerName"], begin, end, decode_queues(answer.data))
        except (KeyError, ValueError, CorruptRecord) as error:
            raise Refused(answer.code, f"an answer that makes no sense: {error!r}", asked=what) from error

    def list(self, folder: str, *, is_deep: bool = False) -> dict[str, tuple[StoreEntry, ...]]:
        """What is in a folder, and below it; see format/store_body.py. Raises NotPermitted or ReadLost."""
        what = f"the folder {folder or '/'}"
        fields = {"folder": folder, "deep": "true" if is_deep else "false"}
        answer = self._line.call(RequestCode.LIST_STORE_FILES, fields, what=what)
        try:
            return decode_folders(answer.data)
        except CorruptRecord as error:
            raise Refused(answer.code, f"an answer that makes no sense: {error}", asked=what) from error

    def mark_archived(self, archive: str, position: int, target: str) -> None:
        """Tell that the log before `position` is in an archive. Raises NotPermitted or ReadLost."""
        fields = {"archive": archive, "position": str(position), "target": target}
        self._line.call(RequestCode.MARK_ARCHIVED, fields, what="a mark of an archive")

    def open(self, path: str) -> BrokerFile:
        """A file; nothing is asked before it is read."""
        return BrokerFile(self._line, path)


class _Piece(NamedTuple):
    """A piece of the file that was asked for."""

    opaque: int
    size: int


class BrokerFile:
    """One file, for one thread. To be closed."""

    def __init__(self, line: BrokerLine, path: str) -> None:
        self._line = line
        self._path = path
        self._connection: BlockingConnection | None = None
        self._ahead: tuple[_Piece, ...] = ()  # what was asked for and is not wanted yet: it begins at _read_end
        self._early: dict[int, bytes] = {}  # of that, what has come
        self._read_end = -1  # where the last read stopped

    def read_into(self, buffer: memoryview, at: int) -> int:
        """Fill `buffer` with the bytes from byte `at` on; how many there were.

        It is tried again while the broker is away. Raises FileNotFoundError, NotPermitted, or ReadLost.
        """

        def read() -> int:
            try:
                return self._read(buffer, at)
            except BaseException:
                self._drop()
                raise

        return self._line.repeat(read, what=f"{self._path} at byte {at}")

    def close(self) -> None:
        if self._connection is None:
            return
        if self._ahead:
            self._drop()
        else:
            self._line.give_back(self._connection)
            self._connection = None

    def _read(self, buffer: memoryview, at: int) -> int:
        if self._connection is None:
            self._connection = self._line.take()
        connection, is_going_on = self._connection, at == self._read_end
        pieces = self._ahead
        if not is_going_on or sum(piece.size for piece in pieces) != len(buffer):
            self._pass_over(connection)
            pieces = self._ask(connection, at, len(buffer))
        is_large = PIECE_SIZE <= len(buffer) <= MOST_AHEAD
        self._ahead = self._ask(connection, at + len(buffer), len(buffer)) if is_going_on and is_large else ()
        done = self._receive(connection, pieces, buffer)
        self._read_end = at + done
        if done < len(buffer):
            self._pass_over(connection)
        return done

    def _ask(self, connection: BlockingConnection, at: int, size: int) -> tuple[_Piece, ...]:
        """Ask for `size` bytes from byte `at` on, in pieces."""
        requests, pieces = [], []
        for begin in range(at, at + size, PIECE_SIZE):
            wanted = min(PIECE_SIZE, at + size - begin)
            fields = {"path": self._path, "begin": str(begin), "size": str(wanted)}
            request = self._line.request(RequestCode.READ_STORE_FILE, fields)
            requests.append(request)
            pieces.append(_Piece(request.opaque, wanted))
        connection.send(requests)
        return tuple(pieces)

    def _receive(self, connection: BlockingConnection, pieces: Sequence[_Piece], buffer: memoryview) -> int:
        """Have all `pieces` in their places in `buffer`; how many bytes follow each other there."""
        begin, places = 0, {}
        for piece in pieces:
            places[piece.opaque] = buffer[begin : begin + piece.size]
            begin += piece.size
        sizes: dict[int, int] = {}
        for opaque in places.keys() & self._early.keys():
            body = self._early.pop(opaque)
            places[opaque][: len(body)] = body
            sizes[opaque] = len(body)
        while len(sizes) < len(places):
            answer, size = connection.receive(places)
            self._check(answer)
            if answer.opaque in places:
                sizes[answer.opaque] = size
            else:
                self._early[answer.opaque] = answer.data
        done = 0
        for piece in pieces:
            done += sizes[piece.opaque]
            if sizes[piece.opaque] < piece.size:
                break
        return done

    def _pass_over(self, connection: BlockingConnection) -> None:
        """Let go of what comes and is not wanted."""
        left = {piece.opaque for piece in self._ahead} - self._early.keys()
        while left:
            left.discard(connection.receive().answer.opaque)
        self._ahead, self._early = (), {}

    def _check(self, answer: Command) -> None:
        try:
            check_answer(answer, f"{self._path} at {self._line.address}")
        except MessageNotFound as error:
            raise FileNotFoundError(str(error)) from error

    def _drop(self) -> None:
        """Let go of the connection and of all that comes on it."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._ahead, self._early, self._read_end = None, (), {}, -1
