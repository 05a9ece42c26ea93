"""Gives memory back that was needed to load kernels, and is not needed to run them.

Most of it is the compiler's own program: some 70 MiB of libllvmlite that are read while code is linked, and never
again. They are a copy of a file, so they can be let go of at any time: whoever needs a page of them finds it in the
file again.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

log = logging.getLogger(__name__)

_LIBRARIES: Final = ("/llvmlite/", "/numba/", "/numpy/", "/numpy.libs/")
_FIELDS_WITH_PATH: Final = 6


class _Mapping(NamedTuple):
    """A range of addresses that shows a file, and how much of it is in memory."""

    begin: int
    end: int
    mode: str
    path: str
    resident: int
    changed: int  # bytes that are no longer those of the file

    @property
    def may_go(self) -> bool:
        """Whether nothing is lost with its pages, and the compiler's libraries are what they show."""
        is_of_compiler = any(part in self.path for part in _LIBRARIES) and ".so" in Path(self.path).name
        return is_of_compiler and "w" not in self.mode and self.mode.endswith("p") and not self.changed


def release_unused() -> int:
    """Give back what loading has left behind; returns how many bytes of libraries were let go of."""
    gc.collect()
    try:
        libc = ctypes.CDLL(None)
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(ctypes.c_size_t(0))
        gone = [
            each.resident
            for each in _iter_mappings(Path("/proc/self/smaps").read_text())
            if each.may_go and libc.madvise(each.begin, each.end - each.begin, mmap.MADV_DONTNEED) == 0
        ]
    except (OSError, AttributeError, ValueError) as error:  # another system, or it keeps its maps to itself
        log.debug("libraries stay in memory error=%s", error)
        return 0
    return sum(gone)


def _iter_mappings(text: str) -> Iterator[_Mapping]:
    """The mappings of files in /proc/self/smaps: a head line for each, then a line for each of its facts."""
    head: list[str] = []
    facts: dict[str, int] = {}
    for line in [*text.splitlines(), "end"]:
        words = line.split(maxsplit=_FIELDS_WITH_PATH - 1)
        if words[0].endswith(":"):
            facts[words[0]] = int(words[1]) * 1024 if words[-1] == "kB" else 0
            continue
        if len(head) == _FIELDS_WITH_PATH:
            begin, end = (int(number, 16) for number in head[0].split("-"))
            # Without the fact it is taken for changed: such a mapping stays.
            yield _Mapping(begin, end, head[1], head[5], facts.get("Rss:", 0), facts.get("Anonymous:", 1))
        head, facts = words, {}
