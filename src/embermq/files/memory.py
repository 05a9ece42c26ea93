"""What the kernel is told about mapped pages.

Called through ctypes because it lets go of the GIL for the length of a call, which
`mmap.madvise` does not; warming a few MiB takes long enough to matter.
"""

from __future__ import annotations

import ctypes
import mmap
import os

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14
_LOCK_ON_FAULT = 1  # MLOCK_ONFAULT
_POPULATE_STEP = 2 << 20  # one call keeps the process from mapping anything else, so calls are short

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def populate(mapping: mmap.mmap, begin: int, end: int) -> bool:
    """Make the pages of [begin, end) present and writable without changing a byte.

    Only advice: False where the kernel cannot or would not.
    """
    anchor = ctypes.c_char.from_buffer(mapping)  # keeps the map alive while its address is used
    base = ctypes.addressof(anchor)
    begin -= begin % mmap.PAGESIZE
    while begin < end:
        step = min(_POPULATE_STEP, end - begin)
        if _libc.madvise(base + begin, step, _POPULATE_WRITE) != 0:
            return False
        begin += step
    return True


def lock(mapping: mmap.mmap) -> None:
    """Keep the pages of `mapping` in memory from their first use on. Raises OSError."""
    anchor = ctypes.c_char.from_buffer(mapping)
    mlock2 = _libc.mlock2
    mlock2.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if mlock2(ctypes.addressof(anchor), len(mapping), _LOCK_ON_FAULT) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def unlock(mapping: mmap.mmap) -> None:
    """Undo `lock`."""
    anchor = ctypes.c_char.from_buffer(mapping)
    _libc.munlock(ctypes.addressof(anchor), len(mapping))
