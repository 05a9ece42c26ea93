"""Files in memory: how one is mapped, and what the kernel is told about its pages.

The latter is called through ctypes because it lets go of the GIL for the length of a call, which
`mmap.madvise` does not; warming a few MiB takes long enough to matter.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

from embermq.errors import WrongFileSize

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14
_LOCK_ON_FAULT = 1  # MLOCK_ONFAULT
_POPULATE_STEP = 2 << 20  # one call keeps the process from mapping anything else, so calls are short

_LOWEST_BIT = bytes(value & 1 for value in range(256))  # of what is told of a page: whether it is there

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def map_file(path: Path, size: int, *, read_only: bool) -> tuple[int, mmap.mmap, bool]:
    """The descriptor of the file at `path`, its map, and whether it is new; a missing or empty one gets `size` zeros.

    The descriptor is -1 for one that is only read. Raises WrongFileSize, and OSError.
    """
    flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        found = os.fstat(descriptor).st_size
        if found == 0 and not read_only:
            os.ftruncate(descriptor, size)
        elif found != size:
            raise WrongFileSize(path, found=found, expected=size)
        mapping = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE)
    except BaseException:
        os.close(descriptor)
        raise
    if read_only:
        os.close(descriptor)
        descriptor = -1
    return descriptor, mapping, found == 0


def bytes_address(data: bytes) -> int:
    """Where the bytes begin; they must be kept while their address is used."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def address_of(mapping: mmap.mmap) -> int:
    """Where a writable map begins; it must be kept while its address is used."""
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


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


def is_resident(mapping: mmap.mmap, begin: int, end: int) -> bool:
    """Whether [begin, end) of a writable map can be read without waiting for the disk; False if nobody can tell."""
    anchor = ctypes.c_char.from_buffer(mapping)
    begin -= begin % mmap.PAGESIZE
    pages = ctypes.create_string_buffer(-(-(end - begin) // mmap.PAGESIZE))
    if _libc.mincore(ctypes.addressof(anchor) + begin, end - begin, pages) != 0:
        return False
    return pages.raw.translate(_LOWEST_BIT).find(0) < 0


def forget(mapping: mmap.mmap) -> None:
    """Let go of the pages of a writable map of a file; they are read from it again. Raises OSError."""
    anchor = ctypes.c_char.from_buffer(mapping)
    if _libc.madvise(ctypes.addressof(anchor), len(mapping), mmap.MADV_DONTNEED) != 0:
        raise OSError(ctypes.get_errno(), "madvise")


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
