"""One call of a kernel that receives, stores and answers plain SENDs of many connections, and what it left undone.

Only loaded where kernels are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from embermq.broker.fast_answers import ROOM, FastAnswers, WrittenShares
from embermq.broker.fast_peers import FastPeer, FastPeers
from embermq.files.memory import bytes_address
from embermq.kernels import serving as known
from embermq.kernels.compiling import Table
from embermq.kernels.sends import ENDED
from embermq.kernels.serving import ALL_SERVED, SERVED_SIZE, serve_peers
from embermq.kernels.shares import SHARE_WIDTH
from embermq.kernels.sockets import GOT, LEFT_AT, PART, PART_SIZE, PEER_WIDTH, ROWS_END, TAKEN, WHY
from embermq.kernels.storing import JOB_SIZE, WRITTEN
from embermq.kernels.turn import RECEIVED, TurnMemory
from embermq.log.placed import Spread
from embermq.log.quick_append import QuickAppend, StoringMemory, Taken
from embermq.log.table_append import DraftTable

# So many sends, or bytes received, are stored before more is received, so that the first have answers while others
# are read. With 96 to 128 of 1 KiB the median answer of 4 × 128 came after 0.3 ms, with 512 after 0.45 ms; rates and
# CPU time differed by less than the rounds of each.
ENOUGH_ROWS: Final = 128
ENOUGH_BYTES: Final = 512 * 1024
_NO_JOB: Final[Table] = np.zeros(JOB_SIZE, np.int64)

Left = tuple[FastPeer, int, bytes]  # how many bytes came or why none did, and those that nobody has taken


class FastServing:
    """Serves peers by a kernel, as far as that goes."""

    def __init__(
        self, memory: TurnMemory, peers: FastPeers, answers: FastAnswers, *, most_peers: int, read_size: int
    ) -> None:
        self._memory = memory
        self._peers = peers
        self._answers = answers
        self._storing = StoringMemory(len(memory.drafts))
        self._shares: Table = np.zeros((most_peers, SHARE_WIDTH), np.int64)
        self._served: Table = np.zeros(SERVED_SIZE, np.int64)
        self.numbers = self._served.data  # quicker than numpy to read and write one by one
        self.numbers[known.READ_SIZE] = read_size
        self.numbers[known.ENOUGH_ROWS], self.numbers[known.ENOUGH_BYTES] = ENOUGH_ROWS, ENOUGH_BYTES
        self.status = ALL_SERVED
        self._written = 0

    def begin(self, first: int, free_at: int) -> None:
        """Serve peers from number `first` on with the next call; memory is free from byte `free_at` on."""
        numbers = self.numbers
        numbers[known.NEXT_PEER] = numbers[known.FIRST_PEER] = first
        numbers[known.FREE_AT] = free_at

    def run(self, source: DraftTable, slots: Table, quick: QuickAppend | None) -> Taken:
        """Receive, and store and answer if there is a `quick` way into the log."""
        numbers, memory, storing, answers = self.numbers, self._memory, self._storing, self._answers
        sends = memory.sends
        numbers[known.MAY_STORE] = quick is not None
        job = _NO_JOB if quick is None else quick.job
        self.status = serve_peers(
            memory.address, self._served, self._peers.table, slots, job, sends.rows, memory.drafts, source.topics,
            memory.hosts, source.queues, storing.records, storing.places, storing.codes, storing.keys, self._shares,
            sends.scratch_address, sends.scratch_size, answers.address, ROOM,
        )  # fmt: skip
        self._written = int(job[WRITTEN])
        spread = Spread(numbers[known.SMALLEST], numbers[known.LARGEST], numbers[known.STORED_SIZE])
        count, at = numbers[known.PLACE_COUNT], known.PLACES
        rows = set(numbers[at : at + count]) if count >= 0 else None
        return Taken(storing, numbers[known.DONE], numbers[known.STORED], numbers[known.KEYS], spread, rows)

    def last_records(self) -> Table:
        """The records of the rows that are stored, but not answered."""
        stored = self.numbers[known.STORED]
        return self._storing.records[stored - self._written : stored]

    def written(self) -> tuple[int, WrittenShares] | None:
        """How many of these rows know where their messages are, and their answers; None if nobody began with them."""
        numbers = self.numbers
        count = numbers[known.SHARES]
        if not count:
            return None
        return numbers[known.TOLD], WrittenShares(self._shares[:count], numbers[known.WRITTEN_SHARES], is_sent=False)

    def sent_shares(self) -> Table:
        """How much of the answers the last peers have got; see shares.py."""
        return self._shares[: self.numbers[known.SHARES]]

    def shares(self, peers: Sequence[FastPeer]) -> list[tuple[FastPeer, int]]:
        """Who has rows that are not dealt with, and the number of the row behind the last of each."""
        numbers, known_of = self.numbers, self._peers.numbers
        waiting = peers[numbers[known.FIRST_PEER] : numbers[known.NEXT_PEER]]
        return [
            (peer, known_of[peer.slot * PEER_WIDTH + ROWS_END])
            for peer in waiting
            if known_of[peer.slot * PEER_WIDTH + TAKEN]
        ]

    def take_left(self, peers: Sequence[FastPeer], received: memoryview) -> list[Left]:
        """Give these peers, who had their turn, the parts of frames that came for them; what else is left of them."""
        left: list[Left] = []
        numbers = self._peers.numbers
        for peer in peers:
            at = peer.slot * PEER_WIDTH
            got, taken, begin = numbers[at + GOT], numbers[at + TAKEN], numbers[at + LEFT_AT]
            peer.part = b""
            if got > taken and numbers[at + WHY] == ENDED:
                peer.keep_part(received[begin : begin + got - taken].tobytes())
            elif got != taken or not got:
                left.append((peer, got, received[begin : begin + max(got - taken, 0)].tobytes()))
        return left

    def take_parts(self, peers: Sequence[FastPeer], received: memoryview) -> None:
        """Give these peers, who wait for another turn, the parts of frames that the one before has left."""
        numbers, begin = self._peers.numbers, self._memory.numbers[RECEIVED]
        for peer in peers:
            at = peer.slot * PEER_WIDTH
            part_at, size = numbers[at + PART] - begin, numbers[at + PART_SIZE]
            peer.part = part = received[part_at : part_at + size].tobytes() if size else b""
            numbers[at + PART] = bytes_address(part)
