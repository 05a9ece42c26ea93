"""Where the bytes of a store come from: local files, any file system of pyarrow or fsspec, or a broker.

Reads say how many bytes they got; who reads checks that. Files are opened for reading only.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, Self
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs

from embermq.errors import StoreMissing
from embermq.scan.splits import STORAGE, StorePlace

LOCAL_READ_SIZE: Final = 4 << 20
REMOTE_READ_SIZE: Final = 16 << 20
_LOOKS: Final = 8  # bytes that tell whether a part of a file is in memory
_UNKNOWN_TO_ARROW: Final = "Unrecognized filesystem type"


class Found(NamedTuple):
    """What a folder holds under one name."""

    name: str
    size: int
    is_folder: bool


class OpenFile(Protocol):
    """One file, open for reading."""

    def read_into(self, buffer: memoryview, at: int) -> int:
        """Fill `buffer` with the bytes from byte `at` on; how many there were."""
        ...

    def close(self) -> None: ...


class OwnerState(NamedTuple):
    """What the owner of a store's files says of them: the log may be read up to `log_end`, and has all messages of
    the queues, which are [begin, end) by topic and number."""

    log_end: int
    queues: Mapping[tuple[str, int], tuple[int, int]]


class FileSystem(Protocol):
    """Where a store's files are. Paths are relative to the store, with `/` between names."""

    is_local: bool
    read_size: int  # bytes that are best read at once

    def list(self, folder: str) -> Sequence[Found]:
        """What is in a folder, by name; nothing if there is no such folder."""
        ...

    def open(self, path: str) -> OpenFile:
        """Raises OSError."""
        ...

    def ask_owner(self) -> OwnerState | None:
        """What the owner of the files says now; None where there is nobody to ask."""
        ...


class LocalFiles:
    """A folder of this machine."""

    is_local = True
    read_size = LOCAL_READ_SIZE

    def __init__(self, root: str) -> None:
        self.root = root

    def list(self, folder: str) -> Sequence[Found]:
        try:
            with os.scandir(os.path.join(self.root, folder)) as entries:
                found = [Found(entry.name, _size_of(entry), entry.is_dir()) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        return sorted(found)

    def open(self, path: str) -> OpenFile:
        return LocalFile(os.open(os.path.join(self.root, path), os.O_RDONLY | os.O_CLOEXEC))

    def ask_owner(self) -> OwnerState | None:
        return None


class LocalFile:
    """A file of this machine."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_into(self, buffer: memoryview, at: int) -> int:
        done = 0
        while done < len(buffer):
            count = os.preadv(self._descriptor, [buffer[done:]], at + done)
            if count == 0:
                break
            done += count
        return done

    def expect(self, at: int, size: int) -> None:
        """Have the disk read so many bytes at once that are asked for in small pieces."""
        if not self._is_in_memory(at, size):
            os.posix_fadvise(self._descriptor, at, size, os.POSIX_FADV_WILLNEED)

    def _is_in_memory(self, at: int, size: int) -> bool:
        """Whether a few of the bytes, and so most likely all, can be had without the disk."""
        byte, places = bytearray(1), range(at, at + size, max(size // _LOOKS, 1))
        try:
            return all(os.preadv(self._descriptor, [byte], place, os.RWF_NOWAIT) for place in places)
        except OSError:  # one of them cannot, or no file system knows
            return False

    def read_places(
        self, buffer: memoryview, at: int, places: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
    ) -> bool:
        """Fill `buffer`, which stands for the bytes from byte `at` on, at the places of records alone, by kernels.

        Whether all were read whole, with these sizes; if not, all bytes must be looked at.
        """
        from embermq.kernels.memory import address_of
        from embermq.kernels.place_reads import read_places

        return read_places(self._descriptor, at, address_of(buffer), len(buffer), places, sizes) == len(places)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ArrowFiles:
    """A folder of a file system that pyarrow knows, or that fsspec knows and pyarrow wraps."""

    is_local = False
    read_size = REMOTE_READ_SIZE

    def __init__(self, system: fs.FileSystem, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")

    def list(self, folder: str) -> Sequence[Found]:
        selector = fs.FileSelector(self._path(folder), allow_not_found=True)
        found = self._system.get_file_info(selector)
        return sorted(
            Found(info.base_name.rstrip("/"), info.size or 0, info.type == fs.FileType.Directory)
            for info in found
            if info.base_name
        )

    def open(self, path: str) -> OpenFile:
        return _ArrowFile(self._system.open_input_file(self._path(path)))

    def ask_owner(self) -> OwnerState | None:
        return None

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


class _ArrowFile:
    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file

    def read_into(self, buffer: memoryview, at: int) -> int:
        self._file.seek(at)
        done = 0
        while done < len(buffer):
            count = self._file.readinto(buffer[done:])
            if not count:
                break
            done += count
        return done

    def close(self) -> None:
        self._file.close()


def open_file_system(place: StorePlace) -> FileSystem:
    """The file system of a store. Raises StoreMissing for an address that nothing is known for."""
    if place.is_broker:
        from embermq.scan.broker_files import BrokerFiles

        return BrokerFiles(place)
    return _open(place)


@lru_cache(maxsize=16)
def _open(place: StorePlace) -> FileSystem:
    address = place.address
    parts = urlsplit(address)
    if not parts.scheme or "://" not in address:
        return LocalFiles(os.path.abspath(os.path.expanduser(address)))
    if parts.scheme == "file":
        return LocalFiles(unquote(parts.path))
    if not place.options:
        try:
            return ArrowFiles(*fs.FileSystem.from_uri(address))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if _UNKNOWN_TO_ARROW not in str(error):
                raise StoreMissing(place.name, str(error).replace(address, place.name)) from None
    return ArrowFiles(*_open_fsspec(place))


def _open_fsspec(place: StorePlace) -> tuple[fs.FileSystem, str]:
    try:
        import fsspec
    except ImportError as error:
        raise StoreMissing(
            place.name, "pyarrow does not know this kind of address, and fsspec is not installed"
        ) from error
    storage = dict(place.options).get(STORAGE)
    try:
        system, path = fsspec.core.url_to_fs(place.address, **(json.loads(storage) if storage else {}))
    except (ValueError, TypeError, ImportError) as error:
        raise StoreMissing(place.name, str(error)) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def _size_of(entry: os.DirEntry[str]) -> int:
    return entry.stat().st_size if entry.is_file() else 0
