"""Files as `verify` sees them: whatever their names, sizes and bytes are.

The classes that a store works with refuse what is not as it should be. Here it is told,
and the rest is read all the same.
"""

from __future__ import annotations

import mmap
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from embermq.files.paths import file_name
from embermq.store.verify_damage import DamageKind, DamageList, Hidden, Ranges

MOST_MAPPED: Final = 256  # files at a time; each takes a descriptor
_CHUNK: Final = 1 << 20
_SMALL_CHUNK: Final = 1 << 12
_ZEROS: Final = bytes(_CHUNK)
_NAME_SIZE: Final = 20
_END_OF_POSITIONS: Final = 1 << 62


HiddenIn = Callable[[int, int], list[Hidden]]  # which messages lie in a range of bytes


class Segment(NamedTuple):
    """A file that is named after the position of its first byte."""

    path: Path
    start: int
    size: int


class Views:
    """The bytes of files, mapped; those used last stay so."""

    def __init__(self, damage: DamageList) -> None:
        self._damage = damage
        self._views: OrderedDict[Path, memoryview] = OrderedDict()

    def of(self, path: Path) -> memoryview:
        """The bytes of the file as it is now; none if it cannot be read, which is damage, or was deleted just now."""
        view = self._views.get(path)
        if view is None:
            view = self._views[path] = self._open(path)
            if len(self._views) > MOST_MAPPED:
                self._views.popitem(last=False)  # the map goes when nobody looks at it any more
        else:
            self._views.move_to_end(path)
        return view

    def _open(self, path: Path) -> memoryview:
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size == 0:
                    return memoryview(b"")
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except FileNotFoundError:
            return memoryview(b"")
        except OSError as error:
            self._damage.add(path, 0, DamageKind.FILE, f"it cannot be read: {error.strerror or error}")
            return memoryview(b"")


def find_files(folder: Path, is_name: Callable[[str], bool], damage: DamageList) -> list[Path]:
    """The files of a folder by name; one that `is_name` does not know is damage. A missing folder is empty."""
    found = []
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        damage.add(folder, 0, DamageKind.FILE, f"it cannot be read: {error.strerror or error}")
        return []
    for path in (folder / name for name in names):
        if path.is_dir():
            continue
        if is_name(path.name):
            found.append(path)
        else:
            damage.add(path, 0, DamageKind.FILE, "no store gives a file this name")
    return found


def find_segments(folders: Iterable[Path], damage: DamageList) -> list[Segment]:
    """The files that are named after positions, in their order. An empty last one was never used."""
    found = []
    for folder in dict.fromkeys(folders):
        for path in find_files(folder, is_position, damage):
            try:
                found.append(Segment(path, int(path.name), path.stat().st_size))
            except FileNotFoundError:  # its owner deleted it
                continue
            except OSError as error:
                damage.add(path, 0, DamageKind.FILE, f"it cannot be read: {error.strerror or error}")
    found.sort(key=lambda segment: segment.start)
    while found and found[-1].size == 0:
        found.pop()
    return found


def is_position(name: str) -> bool:
    """Whether a file of this name could be part of a log or queue."""
    return len(name) == _NAME_SIZE and name.isascii() and name.isdecimal() and int(name) < _END_OF_POSITIONS


def usual_size(groups: Iterable[Sequence[Segment]]) -> int:
    """The file size that most sizes and distances between names speak for; 0 without files."""
    votes: Counter[int] = Counter()
    for segments in groups:
        votes.update(segment.size for segment in segments)
        votes.update(later.start - earlier.start for earlier, later in pairwise(segments))
    return max((size for size in votes if size > 0), key=lambda size: (votes[size], size), default=0)


def check_segments(
    segments: Sequence[Segment], size: int, damage: DamageList, hidden_in: HiddenIn | None = None
) -> Ranges:
    """Compare files with the `size` they should have; returns the positions before the last that no file has.

    `hidden_in` tells which messages are hidden with a range of bytes; without it, files are those of the log.
    """

    def add(path: Path, detail: str, begin: int, end: int) -> None:
        if hidden_in is None:
            damage.add(path, 0, DamageKind.FILE, detail, covers=(begin, end))
        else:
            damage.add(path, 0, DamageKind.FILE, detail, hides=hidden_in(begin, end))

    missing = Ranges()
    for segment in segments:
        if segment.size != size:
            detail = f"{segment.size} bytes found, {size} expected"
            add(
                segment.path,
                detail,
                segment.start + segment.size,
                max(segment.start + size, segment.start + segment.size),
            )
        if segment.size < size:
            missing.add(segment.start + segment.size, segment.start + size)
    for earlier, later in pairwise(segments):
        end = earlier.start + size
        if later.start > end:
            count = -(-(later.start - end) // size)
            which = "it is" if count == 1 else f"it and {count - 1} files behind it are"
            path = earlier.path.with_name(file_name(end))
            add(path, f"{which} missing, though files before and after are there", end, later.start)
            missing.add(end, later.start)
        elif later.start < end:
            add(later.path, f"it begins before {earlier.path.name} ends, at {end}", later.start, later.start)
    return missing


def iter_bytes(view: memoryview, wanted: bytes, begin: int) -> Iterator[int]:
    """Every place of `wanted` from `begin` on."""
    overlap = len(wanted) - 1
    size = _SMALL_CHUNK  # and growing, because the first place is mostly near
    while begin < len(view):
        chunk = bytes(view[begin : begin + size + overlap])
        at = chunk.find(wanted)
        while at >= 0:
            yield begin + at
            at = chunk.find(wanted, at + 1)
        begin += size
        size = min(size * 4, _CHUNK)


def find_nonzero(view: memoryview, path: Path, begin: int) -> int | None:
    """The first byte from `begin` on that is not zero."""
    near = bytes(view[begin : begin + _SMALL_CHUNK])
    if near.strip(b"\0"):
        return begin + len(near) - len(near.lstrip(b"\0"))
    for first, last in _iter_data(path, begin, len(view)):
        for at in range(first, last, _CHUNK):
            chunk = bytes(view[at : min(at + _CHUNK, last)])
            if chunk != _ZEROS[: len(chunk)]:
                return at + len(chunk) - len(chunk.lstrip(b"\0"))
    return None


def find_used(view: memoryview, path: Path, begin: int) -> int:
    """The end of the last byte from `begin` on that is not zero; `begin` if there is none."""
    size = _SMALL_CHUNK  # and growing, because mostly the end is near
    for first, last in reversed(list(_iter_data(path, begin, len(view)))):
        end = last
        while end > first:
            start = max(first, end - size)
            chunk = bytes(view[start:end])
            if chunk != _ZEROS[: len(chunk)]:
                return start + len(chunk.rstrip(b"\0"))
            end, size = start, min(size * 4, _CHUNK)
    return begin


def _iter_data(path: Path, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges of [begin, end) that are no holes of the file: store files are made large and stay mostly empty."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield begin, end
        return
    try:
        while begin < end:
            first = os.lseek(descriptor, begin, os.SEEK_DATA)
            begin = os.lseek(descriptor, first, os.SEEK_HOLE)
            if first < end:
                yield first, min(begin, end)
    except OSError:  # nothing but a hole from here on
        return
    finally:
        os.close(descriptor)
