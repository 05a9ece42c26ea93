"""Many connections served in one call: their plain SENDs are received, stored and answered, some connections at a time.

    receive A ─ receive B ─→ store both ─→ answer both ─ receive C ─ …

Who has an answer can go on while the others are read; when all had their turn, they may have another, with the parts of
frames that are left of the one before.
It stops where something is for plain code, with what was done until then: rows that are read but not stored, or
stored but not answered, or answers that a socket did not take. Whoever called does that, and calls again for the rest.

    served   the numbers of a call, see the names below
    others   as the kernels have them that do the work: sockets.py, turn.py, storing.py, shares.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from numba import types

from embermq.kernels.compiling import Table, kernel, part, variable
from embermq.kernels.memory import get, load_i32, move, put, row_at
from embermq.kernels.placing import list_places
from embermq.kernels.sends import ENDED
from embermq.kernels.shares import SHARE_IS_FREE, SHARE_ROWS_END, SHARE_SLOT, answer_turn
from embermq.kernels.sockets import (
    BEGIN,
    GOT,
    IS_FREE,
    LEFT_AT,
    NOTHING_YET,
    PART,
    PART_SIZE,
    PEER_WIDTH,
    ROWS_END,
    TAKEN,
    WHY,
    receive_from,
)
from embermq.kernels.storing import (
    ENTERED,
    INDEX_ROOM,
    INDEXED,
    JOB_SIZE,
    NUMBERS,
    NUMBERS_SIZE,
    POSITION,
    TARGET,
    TARGET_SIZE,
    WRITTEN,
    WRITTEN_BEFORE,
    WRITTEN_SIZE,
    store_drafts,
)
from embermq.kernels.storing import KEYS as JOB_KEYS
from embermq.kernels.storing import LARGEST as JOB_LARGEST
from embermq.kernels.storing import SMALLEST as JOB_SMALLEST
from embermq.kernels.turn import COUNT, DRAFT_COUNT, HALVES, RECEIVED, RECORD_EXTRA, SENDERS, TEXT_END

# What the caller says: where the memory for what is received is free, how many bytes to receive of a peer, from how
# many rows or bytes on they are stored before more is received, and whether they may be stored at all.
FREE_AT, READ_SIZE, ENOUGH_ROWS, ENOUGH_BYTES, MAY_STORE = range(5)
# Which peers had their turn, and from which one on rows are left; says the caller before, and the call after. Of the
# peers behind these, the parts of frames lie in the memory of the turn if there was another turn.
NEXT_PEER, FIRST_PEER = range(5, 7)
# What it is told: how many messages are stored, of how many sends that have their answers all is done, their keys, the
# largest and the smallest record, the sum, how many peers need a look, how many of these only because of the small
# part of a frame, how many times something was stored, what answer_turn said, the ns that each stage took, and how
# often all peers had another turn.
(
    STORED, DONE, SENDS, KEYS, LARGEST, SMALLEST, STORED_SIZE, TO_LOOK_AT, PARTS, TIMES, TOLD, WRITTEN_SHARES, SHARES,
    READ_NS, STORE_NS, ANSWER_NS, ROUNDS,
) = range(7, 24)  # fmt: skip
MOST_BYTES, PLACE_COUNT = range(24, 26)  # of the records stored at once; how many places what is done went to, or -1
_CLOCK: Final = 26  # two numbers for the clock
PLACES: Final = 28  # those places, if they are not too many
FEW_PLACES: Final = 32
SERVED_SIZE: Final = PLACES + FEW_PLACES

# Peers that send much are served again and again, for as long as this: they have sent more meanwhile.
_LONGEST_NS: Final = 2_500_000
_SMALL_FRAME: Final = 60 * 1024  # a frame of so many bytes may come in parts meanwhile
_SIZE_SIZE: Final = 4

# How it ended: everything is done; rows are read; they are stored, too; they are answered, but not all is sent.
ALL_SERVED, ONLY_READ, ONLY_STORED, NOT_SENT = range(4)

_MONOTONIC: Final = 1
_clock_gettime = cast(
    "Callable[[int, int], int]", types.ExternalFunction("clock_gettime", types.int64(types.int64, types.int64))
)


@part
def _now(served: Table) -> int:
    _clock_gettime(_MONOTONIC, row_at(served, _CLOCK))
    return int(served[_CLOCK] * 1_000_000_000 + served[_CLOCK + 1])


@part
def _is_small_part(turn: int, peer: int, size: int) -> bool:
    """Whether what is left of a peer is the part of a frame that is not large."""
    if get(peer, WHY) != ENDED or size < _SIZE_SIZE:
        return False
    return 0 < load_i32(get(turn, RECEIVED) + get(peer, LEFT_AT)) <= _SMALL_FRAME


@part
def _note_left(turn: int, served: Table, peer: int) -> None:
    """Know where the bytes begin that were not taken, and whether somebody has to look at this peer."""
    got, taken = get(peer, GOT), get(peer, TAKEN)
    put(peer, LEFT_AT, get(peer, BEGIN) + taken)
    if got > taken:
        served[TO_LOOK_AT] += 1
        if _is_small_part(turn, peer, got - taken):
            served[PARTS] += 1
    elif got <= 0 and not (got == NOTHING_YET and served[ROUNDS] > 0):
        served[TO_LOOK_AT] += 1


@part
def _keep_left(turn: int, peers: Table, slots: Table, first: int, end: int, begin: int) -> int:
    """Move what was not taken of peers to byte `begin`; where it ends."""
    at, memory = begin, get(turn, RECEIVED)
    for number in range(first, end):
        peer = row_at(peers, slots[number])
        size = max(get(peer, GOT), 0) - get(peer, TAKEN)
        if size > 0:
            move(memory + at, memory + get(peer, LEFT_AT), size)
            put(peer, LEFT_AT, at)
            at += size
    return at


@part
def _share_out(peers: Table, slots: Table, first: int, end: int, shares: Table) -> int:
    """Say who has answers to get: the peers [first, end) that something was taken of; how many they are."""
    count = 0
    for number in range(first, end):
        peer = row_at(peers, slots[number])
        if get(peer, TAKEN) > 0 and count < len(shares):
            shares[count, SHARE_ROWS_END] = get(peer, ROWS_END)
            shares[count, SHARE_SLOT] = slots[number]
            shares[count, SHARE_IS_FREE] = get(peer, IS_FREE)
            count += 1
    return count


@part
def _advance(job: Table) -> None:
    """Have the next records follow those that were just written."""
    size = job[WRITTEN_SIZE]
    job[POSITION] += size
    job[TARGET] += size
    job[TARGET_SIZE] -= size
    job[WRITTEN_BEFORE] += size
    if job[INDEX_ROOM] > 0:
        job[INDEX_ROOM] -= job[INDEXED]


@part
def _count_stored(served: Table, job: Table) -> None:
    served[LARGEST] = max(served[LARGEST], job[JOB_LARGEST])
    served[SMALLEST] = min(served[SMALLEST], job[JOB_SMALLEST])
    served[STORED_SIZE] += job[WRITTEN_SIZE]
    served[STORED] += job[WRITTEN]
    served[KEYS] += job[JOB_KEYS]
    served[TIMES] += 1


@part
def _is_dispatched(job: Table) -> bool:
    return bool(job[ENTERED] == job[WRITTEN] and job[INDEXED] == job[JOB_KEYS])


@part
def _clear(turn: int) -> None:
    put(turn, COUNT, 0)
    put(turn, DRAFT_COUNT, 0)
    put(turn, TEXT_END, 0)
    put(turn, SENDERS, 0)


@part
def _receive_next(turn: int, served: Table, peer: int, at: int) -> int:
    """Receive from the next peer; where what it sent ends, below 0 if there was no room."""
    if not receive_from(turn, peer, at, served[READ_SIZE]):
        return -1
    _note_left(turn, served, peer)
    served[NEXT_PEER] += 1
    return at + max(get(peer, GOT), 0)


@part
def _is_enough(turn: int, served: Table, size: int) -> bool:
    """Whether the rows are stored before more is received, of which there is still some."""
    if served[MAY_STORE] == 0 or get(turn, HALVES) > 0:
        return False
    return bool(get(turn, COUNT) >= served[ENOUGH_ROWS] or size >= served[ENOUGH_BYTES])


@part
def _store(
    turn: int, served: Table, job: Table, drafts: Table, topics: Table, hosts: Table, queues: Table, records: Table,
    places: Table, codes: Table, keys: Table, size: int,
) -> int:  # fmt: skip
    """Store the rows, whose bytes are no more than `size`; how that ended, ALL_SERVED if they can be answered."""
    served[SHARES] = 0
    done, count = served[STORED], get(turn, DRAFT_COUNT)
    most = size + get(turn, TEXT_END) + count * get(turn, RECORD_EXTRA)
    served[MOST_BYTES] = max(served[MOST_BYTES], most)
    if served[MAY_STORE] == 0 or most > job[TARGET_SIZE] or count > len(records) - done:
        return ONLY_READ
    began = _now(served)
    written = store_drafts(
        job, drafts[:count], topics, hosts[: get(turn, SENDERS) + 1], queues, records[done:], places[done:],
        codes[done:], keys[served[KEYS] :],
    )  # fmt: skip
    served[STORE_NS] += _now(served) - began
    if written == 0:
        return ONLY_READ
    _count_stored(served, job)
    if written < count or not _is_dispatched(job):
        return ONLY_STORED
    _advance(job)
    served[DONE] = served[STORED]
    return ONLY_STORED if get(turn, HALVES) > 0 else ALL_SERVED


@part
def _answer(
    turn: int, served: Table, peers: Table, slots: Table, job: Table, rows: Table, drafts: Table, queues: Table,
    records: Table, shares: Table, scratch: int, scratch_size: int, out: int, out_size: int,
) -> int:  # fmt: skip
    """Answer the rows, whose messages were stored last; how that ended."""
    began, row_count, count = _now(served), get(turn, COUNT), get(turn, DRAFT_COUNT)
    served[SHARES] = _share_out(peers, slots, served[FIRST_PEER], served[NEXT_PEER], shares)
    served[TOLD], served[WRITTEN_SHARES], unsent = answer_turn(
        rows[:row_count], drafts[:count], records[served[STORED] - count : served[STORED]], queues,
        job[NUMBERS], job[NUMBERS_SIZE], peers, shares[: served[SHARES]], scratch, scratch_size, out,
        out_size, 1,
    )  # fmt: skip
    served[ANSWER_NS] += _now(served) - began
    if served[TOLD] < row_count or served[WRITTEN_SHARES] < served[SHARES]:
        return ONLY_STORED
    served[SENDS] += row_count
    return NOT_SENT if unsent > 0 else ALL_SERVED


@part
def _goes_on(
    turn: int, served: Table, job: Table, peers: Table, slots: Table, first: int, before: int, began: int, most: int
) -> bool:
    """Whether the peers from number `first` on have another turn, now that all of them had one; then it begins.

    `before` that turn, so many messages were stored. It must have brought one a peer, or the next brings little.
    """
    stored = served[STORED]
    if served[TO_LOOK_AT] > served[PARTS] or stored - before < len(slots) - first or stored > most // 2:
        return False
    if job[TARGET_SIZE] < 2 * served[MOST_BYTES]:
        return False
    if _now(served) - began > _LONGEST_NS:
        return False
    for number in range(first, len(slots)):
        peer = row_at(peers, slots[number])
        put(peer, PART, get(turn, RECEIVED) + get(peer, LEFT_AT))
        put(peer, PART_SIZE, max(get(peer, GOT) - get(peer, TAKEN), 0))
    served[NEXT_PEER] = served[FIRST_PEER] = first
    served[TO_LOOK_AT] = served[PARTS] = 0
    served[ROUNDS] += 1
    return True


@part
def _prepare(served: Table) -> None:
    for number in range(STORED, SERVED_SIZE):
        served[number] = 0
    served[SMALLEST] = 2**62


@kernel(
    "int64(int64, int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64, int64,"
    " int64, int64)"
)
def serve_peers(
    turn: int, served: Table, peers: Table, slots: Table, job: Table, rows: Table, drafts: Table, topics: Table,
    hosts: Table, queues: Table, records: Table, places: Table, codes: Table, keys: Table, shares: Table, scratch: int,
    scratch_size: int, out: int, out_size: int,
) -> int:  # fmt: skip
    """Receive from the sockets of peers, store what they send and answer; how that ended.

    `rows` and `drafts` are all that the turn has. `records`, `places`, `codes` and `keys` hold all that is stored by
    one call; where they are full, it waits for the next. Peers that had all they sent served may have more turns.
    """
    if len(served) < SERVED_SIZE or len(job) < JOB_SIZE or peers.shape[1] != PEER_WIDTH:
        return ALL_SERVED
    _prepare(served)
    began, base, status = _now(served), variable(served[FREE_AT]), ALL_SERVED
    at, first, stored = base, variable(served[NEXT_PEER]), variable(0)
    while status == ALL_SERVED and served[NEXT_PEER] < len(slots):
        slot = slots[served[NEXT_PEER]]
        if not 0 <= slot < len(peers):
            served[NEXT_PEER] = len(slots)
            break
        end = _receive_next(turn, served, row_at(peers, slot), at)
        at = max(at, end)
        if get(turn, COUNT) > 0:
            is_last = end < 0 or served[NEXT_PEER] == len(slots)
            if not is_last and not _is_enough(turn, served, at - base):
                continue
            status = _store(
                turn, served, job, drafts, topics, hosts, queues, records, places, codes, keys, at - base
            )  # fmt: skip
            if status == ALL_SERVED:
                status = _answer(
                    turn, served, peers, slots, job, rows, drafts, queues, records, shares, scratch, scratch_size, out,
                    out_size,
                )  # fmt: skip
            if status != ALL_SERVED:
                break
            _clear(turn)
        elif end < 0:
            break
        at = base = _keep_left(turn, peers, slots, served[FIRST_PEER], served[NEXT_PEER], base)
        served[FIRST_PEER] = served[NEXT_PEER]
        if served[NEXT_PEER] == len(slots):
            before, stored = stored, served[STORED]
            if not _goes_on(turn, served, job, peers, slots, first, before, began, len(records)):
                break
    served[FREE_AT] = at
    served[PLACE_COUNT] = list_places(places[: served[DONE]], served[PLACES:])
    served[READ_NS] = _now(served) - began - served[STORE_NS] - served[ANSWER_NS]
    return status
