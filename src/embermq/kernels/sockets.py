"""Reading from many sockets in one call: what the peers sent is taken as it comes in.

    peers    one row each, see the names below; it is there for as long as the connection is
    slots    the numbers of the rows that something is to be done with

Nothing here waits: a socket that has nothing says so.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final, cast

from numba import types

from embermq.kernels.compiling import kernel
from embermq.kernels.memory import copy, get, load_native_i32, put
from embermq.kernels.sends import ENDED
from embermq.kernels.turn import COUNT, NOT_KNOWN, REASON, RECEIVED, RECEIVED_SIZE, take_sends

# What is known of a peer: its socket, its host, as records have that, the part of a frame that came before, the texts
# of its answers, and whether these may go straight to the socket; and of the last call: where in the memory of the turn
# its bytes begin, how many there are (0: it sends no more, below: the negative error number), how many of them were
# taken, why not all, how many rows the turn had then, and where the rest lies.
(
    SOCKET, HOST, HOST_SIZE, HOST_FLAG, PART, PART_SIZE, TEXTS, TEXTS_SIZE, IS_FREE, BEGIN, GOT, TAKEN, WHY, ROWS_END,
    LEFT_AT,
) = range(15)  # fmt: skip
PEER_WIDTH: Final = 15

DONT_WAIT: Final = 0x40  # MSG_DONTWAIT
NOTHING_YET: Final = -errno.EAGAIN  # instead of how many bytes were got

SocketCall = Callable[[int, int, int, int], int]
# Of arguments that are narrower, the rest is not looked at.
SOCKET_CALL: Final = types.int64(types.int64, types.int64, types.int64, types.int64)
_recv = cast("SocketCall", types.ExternalFunction("recv", SOCKET_CALL))
_errno_address = cast("Callable[[], int]", types.ExternalFunction("__errno_location", types.int64()))


@kernel("boolean(int64, int64, int64, int64)")
def receive_from(turn: int, peer: int, at: int, most: int) -> bool:
    """Receive from the socket of a peer, `most` bytes, and take plain SENDs; False, with nothing done, without room.

    What is received goes to the memory of the turn from byte `at` on, behind the part of a frame that is there already.
    Where nothing comes behind such a part, it is what was received.
    """
    part_size = get(peer, PART_SIZE)
    if at < 0 or most <= 0 or part_size < 0 or part_size > get(turn, RECEIVED_SIZE) - at - most:
        return False
    memory = get(turn, RECEIVED) + at
    copy(memory, get(peer, PART), part_size)
    got = _recv(get(peer, SOCKET), memory + part_size, most, DONT_WAIT)
    taken = 0
    if got < 0:
        got = -load_native_i32(_errno_address())
        if got == NOTHING_YET and part_size > 0:
            got = part_size
            put(turn, REASON, ENDED)
    elif got > 0:
        got += part_size
        put(turn, REASON, NOT_KNOWN)
        taken = take_sends(turn, at, at + got, get(peer, HOST), get(peer, HOST_SIZE), get(peer, HOST_FLAG))
    put(peer, WHY, get(turn, REASON))
    put(peer, BEGIN, at)
    put(peer, GOT, got)
    put(peer, TAKEN, taken)
    put(peer, ROWS_END, get(turn, COUNT))
    return True
