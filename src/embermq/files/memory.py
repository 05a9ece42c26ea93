"""Files in memory: how one is mapped, and what the kernel is told about its pages.

All of it is called through ctypes. `mmap.mmap` keeps a descriptor of its own for every map, so that a process could
have half as many queues open; and `mmap.madvise` holds the GIL for the length of a call, while warming a few MiB takes
long enough to matter.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from pathlib import Path
from typing import cast

from embermq.errors import WrongFileSize

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14
_LOCK_ON_FAULT = 1  # MLOCK_ONFAULT
_POPULATE_STEP = 2 << 20  # one call keeps the process from mapping anything else, so calls are short

_LOWEST_BIT = bytes(value & 1 for value in range(256))  # of what is told of a page: whether it is there

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_NOT_MAPPED = ctypes.c_void_p(-1).value
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def map_file(path: Path, size: int, *, read_only: bool) -> tuple[int, memoryview, bool]:
    """The descriptor of the file at `path`, its map, and whether it is new; a missing or empty one gets `size` zeros.

    The descriptor is -1 for one that is only read. The map goes with the last view of it. Raises WrongFileSize, and
    OSError.
    """
    flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        found = os.fstat(descriptor).st_size
        if found == 0 and not read_only:
            os.ftruncate(descriptor, size)
        elif found != size:
            raise WrongFileSize(path, found=found, expected=size)
        mapping = _map(descriptor, size, read_only=read_only)
    except BaseException:
        os.close(descriptor)
        raise
    if read_only:
        os.close(descriptor)
        descriptor = -1
    return descriptor, mapping, found == 0


def _map(descriptor: int, size: int, *, read_only: bool) -> memoryview:
    """The bytes of an open file, shared with all who map it, until nobody has a view of them. Raises OSError."""
    protection = mmap.PROT_READ if read_only else mmap.PROT_READ | mmap.PROT_WRITE
    address = _libc.mmap(None, size, protection, mmap.MAP_SHARED, descriptor, 0)
    if address == _NOT_MAPPED:
        raise _last_error()
    mapped = (ctypes.c_ubyte * size).from_address(address)
    # Not at the end of the program: threads may still be at work then.
    weakref.finalize(mapped, _libc.munmap, address, size).atexit = False
    view = memoryview(mapped).cast("B")
    return view.toreadonly() if read_only else view


def _last_error() -> OSError:
    error = ctypes.get_errno()
    return OSError(error, os.strerror(error))


def bytes_address(data: bytes) -> int:
    """Where the bytes begin; they must be kept while their address is used."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def address_of(mapping: memoryview | mmap.mmap) -> int:
    """Where a writable map begins; it must be kept while its address is used."""
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def populate(mapping: memoryview, begin: int, end: int) -> bool:
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


def is_resident(mapping: memoryview, begin: int, end: int) -> bool:
    """Whether [begin, end) of a writable map can be read without waiting for the disk; False if nobody can tell."""
    anchor = ctypes.c_char.from_buffer(mapping)
    begin -= begin % mmap.PAGESIZE
    pages = ctypes.create_string_buffer(-(-(end - begin) // mmap.PAGESIZE))
    if _libc.mincore(ctypes.addressof(anchor) + begin, end - begin, pages) != 0:
        return False
    return pages.raw.translate(_LOWEST_BIT).find(0) < 0


def forget(mapping: memoryview, begin: int, end: int) -> None:
    """Let go of the pages [begin, end) of a writable map of a file; they are read from it again. Raises OSError."""
    anchor = ctypes.c_char.from_buffer(mapping)
    if _libc.madvise(ctypes.addressof(anchor) + begin, end - begin, mmap.MADV_DONTNEED) != 0:
        raise _last_error()


def expect_random(mapping: memoryview) -> None:
    """Tell the kernel that a map of `map_file` is read here and there, so that it reads nothing ahead."""
    mapped = cast("ctypes.Array[ctypes.c_ubyte]", mapping.obj)  # also of one that may only be read
    _libc.madvise(ctypes.addressof(mapped), len(mapping), mmap.MADV_RANDOM)


def lock(mapping: memoryview) -> None:
    """Keep the pages of `mapping` in memory from their first use on. Raises OSError."""
    anchor = ctypes.c_char.from_buffer(mapping)
    mlock2 = _libc.mlock2
    mlock2.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if mlock2(ctypes.addressof(anchor), len(mapping), _LOCK_ON_FAULT) != 0:
        raise _last_error()


def unlock(mapping: memoryview) -> None:
    """Undo `lock`."""
    anchor = ctypes.c_char.from_buffer(mapping)
    _libc.munlock(ctypes.addressof(anchor), len(mapping))
