"""Where an archive is kept: a folder of this machine or of an object store, through pyarrow's file systems.

Credentials and endpoints of object stores are those of the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …).

Only loaded where pyarrow is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs

from embermq.errors import SettingsError
from embermq.files.durable import make_directory, replace_file, sync_directory
from embermq.files.space import DiskSpace
from embermq.jobs.errors import NoRoom
from embermq.scan.splits import shown_address

OWN_FOLDER: Final = "_ember"  # what we keep beside the rows; names that begin so are no rows to Spark and others
_LEFT: Final = {OWN_FOLDER, "catalog.db", "metadata"}
SPARE_BYTES: Final = 64 << 20  # that stay free for the table's own files


class Target:
    """One folder. Paths are relative to it, with `/` between names. Plain data travels to tasks: `address`."""

    def __init__(self, address: str) -> None:
        is_local = "://" not in address or address.startswith("file://")
        if is_local:
            self.address = os.path.abspath(os.path.expanduser(address.removeprefix("file://")))
        else:
            self.address = address.rstrip("/")
        self.local: Final = Path(self.address) if is_local else None

    @property
    def name(self) -> str:
        """The address for people."""
        return shown_address(self.address)

    def __reduce__(self) -> tuple[type[Target], tuple[str]]:
        return Target, (self.address,)

    @cached_property
    def _system(self) -> tuple[fs.FileSystem, str]:
        if self.local is not None:
            return fs.LocalFileSystem(), str(self.local)
        try:
            system, root = fs.FileSystem.from_uri(self.address)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SettingsError(f"target {self.name}: pyarrow knows no such file system") from error
        return system, root

    @property
    def system(self) -> fs.FileSystem:
        return self._system[0]

    def path(self, name: str) -> str:
        """Of a file of the folder, for `system`."""
        root = self._system[1]
        return f"{root}/{name}" if name else root

    @property
    def is_file(self) -> bool:
        """Whether a file is in its place."""
        return self.exists("")

    @property
    def is_free(self) -> bool:
        """Whether nothing is there, but for what a job may have left that was killed before it made its table."""
        return {info.base_name for info in self.list("")} <= _LEFT

    def list(self, folder: str, *, recursive: bool = False) -> list[fs.FileInfo]:
        """What a folder holds; nothing if there is none."""
        selector = fs.FileSelector(self.path(folder), allow_not_found=True, recursive=recursive)
        return list(self.system.get_file_info(selector))

    def name_of(self, info: fs.FileInfo) -> str:
        """The path of something that was listed."""
        return str(info.path).removeprefix(self.path("")).lstrip("/")

    def exists(self, name: str) -> bool:
        return bool(self.system.get_file_info(self.path(name)).type == fs.FileType.File)

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None if it is not there."""
        try:
            with self.system.open_input_file(self.path(name)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Make `data` the content of a small file: the old content or the new, never half of either; durable."""
        if self.local is not None:
            path = self.local / name
            make_directory(path.parent)
            replace_file(path, data)
            return
        with self.system.open_output_stream(self.path(name)) as file:
            file.write(data)

    def delete(self, name: str) -> None:
        """Delete a file; nothing happens if it is not there."""
        with suppress(FileNotFoundError):
            self.system.delete_file(self.path(name))

    def move(self, name: str, to: str) -> None:
        """Give a file another name."""
        self.system.move(self.path(name), self.path(to))

    def make_folder(self, name: str) -> None:
        if self.local is not None:
            make_directory(self.local / name)

    def sync(self, names: Iterable[str]) -> None:
        """Make the names of files durable, whose content is; where somebody else keeps them, they are."""
        if self.local is not None:
            for folder in sorted({(self.local / name).parent for name in names}):
                sync_directory(folder)

    def sync_new(self, folder: str, since_ns: int) -> None:
        """Bring files of a folder to the disk that were changed since then; others wrote them."""
        if self.local is None:
            return
        root = self.local / folder
        for path in sorted(root.rglob("*")):
            if path.stat().st_mtime_ns >= since_ns:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
        sync_directory(root)

    def check_room(self, needs: int) -> None:
        """Raise NoRoom if so many bytes and some more do not fit."""
        if self.local is not None:
            free = DiskSpace.usage(self.local).free
            if free < needs + SPARE_BYTES:
                raise NoRoom(self.name, needs=needs + SPARE_BYTES, free=free)
