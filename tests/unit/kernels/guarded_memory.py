"""Memory between two pages that nobody may touch: one byte too far, and the process is gone."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of

_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class GuardedMemory:
    """Some pages of memory, into which data is put right at the first or right before the last guard."""

    def __init__(self, size: int = 1 << 17) -> None:
        page = mmap.PAGESIZE
        self._map = mmap.mmap(-1, size + 2 * page)
        self.begin = address_of(self._map) + page
        self.end = self.begin + size
        for guard in (self.begin - page, self.end):
            if _libc.mprotect(guard, page, _PROT_NONE):
                raise OSError(ctypes.get_errno(), "no page could be protected")

    def place(self, data: bytes, *, last: bool) -> int:
        """Put `data` at one of the guards and return where it begins."""
        assert len(data) <= self.end - self.begin
        address = self.end - len(data) if last else self.begin
        ctypes.memmove(address, data, len(data))
        return address

    def place_table(self, rows: Table, *, last: bool) -> Table:
        """The same for a table."""
        address = self.place(rows.tobytes(), last=last)
        kind = ctypes.c_char * rows.nbytes
        return np.frombuffer(kind.from_address(address), np.int64).reshape(rows.shape)

    def read(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)
