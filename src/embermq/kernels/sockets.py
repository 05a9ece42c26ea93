"""Reading from many sockets and writing to them, in one call: what the peers sent is taken as it comes in.

    peers    one row each, see the names below; it is there for as long as the connection is
    slots    the numbers of the rows that something is to be done with

Nothing here waits: a socket that has nothing, or takes nothing, says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from numba import types

from embermq.kernels.compiling import Table, kernel
from embermq.kernels.memory import copy, get, load_native_i32, put, row_at
from embermq.kernels.turn import COUNT, NOT_KNOWN, REASON, RECEIVED, RECEIVED_SIZE, take_sends

# What is known of a peer: its socket, its host, as records have that, and the part of a frame that came before; and of
# the last call: where in the memory of the turn its bytes begin, how many there are (0: it sends no more, below: the
# negative error number), how many of them were taken, why not all, and how many rows the turn had then.
SOCKET, HOST, HOST_SIZE, HOST_FLAG, PART, PART_SIZE, BEGIN, GOT, TAKEN, WHY, ROWS_END = range(11)
PEER_WIDTH: Final = 12

# What is known of an answer: the number of the row behind the peer's last, which becomes the bytes sent; and where it
# ends in the memory of all answers.
SHARE_SENT, SHARE_END = range(2)
SHARE_WIDTH: Final = 2

_DONT_WAIT: Final = 0x40  # MSG_DONTWAIT
_NO_SIGNAL: Final = 0x4000  # MSG_NOSIGNAL

_Call = Callable[[int, int, int, int], int]
_call = types.int64(types.int64, types.int64, types.int64, types.int64)  # of narrower ones, the rest is not looked at
_recv = cast("_Call", types.ExternalFunction("recv", _call))
_send = cast("_Call", types.ExternalFunction("send", _call))
_errno_address = cast("Callable[[], int]", types.ExternalFunction("__errno_location", types.int64()))


@kernel("int64(int64, int64[:, ::1], int64[::1], int64, int64)")
def receive_sends(turn: int, peers: Table, slots: Table, begin: int, most: int) -> int:
    """Receive from the sockets of peers, `most` bytes each, and take plain SENDs; how many peers had their turn.

    What is received goes to the memory of the turn from byte `begin` on, behind the part of a frame that is there
    already, as long as there is room for `most` bytes.
    """
    if peers.shape[1] != PEER_WIDTH or begin < 0 or most <= 0:
        return 0
    at = begin
    for number in range(len(slots)):
        slot = slots[number]
        if not 0 <= slot < len(peers):
            return number
        peer = row_at(peers, slot)
        part_size = get(peer, PART_SIZE)
        if part_size < 0 or part_size > get(turn, RECEIVED_SIZE) - at - most:
            return number
        memory = get(turn, RECEIVED) + at
        copy(memory, get(peer, PART), part_size)
        got = _recv(get(peer, SOCKET), memory + part_size, most, _DONT_WAIT)
        taken = 0
        if got < 0:
            got = -load_native_i32(_errno_address())
        elif got > 0:
            got += part_size
            put(turn, REASON, NOT_KNOWN)
            taken = take_sends(turn, at, at + got, get(peer, HOST), get(peer, HOST_SIZE), get(peer, HOST_FLAG))
        put(peer, WHY, get(turn, REASON))
        put(peer, BEGIN, at)
        put(peer, GOT, got)
        put(peer, TAKEN, taken)
        put(peer, ROWS_END, get(turn, COUNT))
        at += max(got, 0)
    return len(slots)


@kernel("int64(int64[:, ::1], int64[::1], int64[:, ::1], int64, int64)")
def send_shares(peers: Table, slots: Table, shares: Table, out: int, out_size: int) -> int:
    """Send every peer its share of the answers, which lie in `out` one behind the other; how many had their turn.

    A slot below 0 is passed over: nothing is sent then. What went wrong is found by whoever sends the rest.
    """
    begin = 0
    if peers.shape[1] != PEER_WIDTH or shares.shape[1] != SHARE_WIDTH:
        return 0
    for number in range(min(len(slots), len(shares))):
        slot, end = slots[number], shares[number, SHARE_END]
        if slot >= len(peers) or not begin <= end <= out_size:
            return number
        sent = 0
        if slot >= 0 and end > begin:
            socket = get(row_at(peers, slot), SOCKET)
            sent = max(_send(socket, out + begin, end - begin, _DONT_WAIT | _NO_SIGNAL), 0)
        shares[number, SHARE_SENT] = sent
        begin = end
    return min(len(slots), len(shares))
