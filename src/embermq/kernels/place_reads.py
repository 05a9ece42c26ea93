"""Records of a log file read one by one, each to its place in memory, without the bytes between them."""

from __future__ import annotations

from typing import Final, cast

from numba import types

from embermq.format.record_layout import FRAME
from embermq.kernels.compiling import Table, kernel
from embermq.kernels.memory import fits, load_u32
from embermq.kernels.sockets import SOCKET_CALL, SocketCall

_FRAME_SIZE: Final = FRAME.size
_pread = cast("SocketCall", types.ExternalFunction("pread", SOCKET_CALL))  # of numbers that are as wide


@kernel("int64(int64, int64, int64, int64, int64[::1], int64[::1])")
def read_places(descriptor: int, begin: int, data: int, size: int, places: Table, sizes: Table) -> int:
    """Fill `size` bytes of memory, which stand for those of a file from byte `begin` on, but only at `places`.

    Returns how many records were read: it stops at one that does not come whole, or says another size than `sizes`.
    """
    if len(sizes) != len(places) or begin < 0 or size < 0:
        return 0
    for number in range(len(places)):
        place, wanted = places[number], sizes[number]
        if wanted < _FRAME_SIZE or not fits(place, wanted, size):
            return number
        if _pread(descriptor, data + place, wanted, begin + place) != wanted or load_u32(data + place) != wanted:
            return number
    return len(places)
