"""The folder that compiled kernels are kept in: where it is, whether it can be trusted, and when it is of no more use.

    $EMBERMQ_CACHE, or embermq/kernels in the user's cache folder
    ├── kernels-1b3e…        of the kernels as they are now (`cache_name`)
    │   ├── …                numba's own files: machine code, and pickles
    │   └── complete-77a0…   a mark: all kernels were compiled here, for this Python, numba and processor
    └── kernels-9f00…        of former kernels: removed a week after it was last used

What is in there is run. So the folder and the one above it must be ours, and nobody else may write into them.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from embermq.errors import CacheUnsafe
from embermq.kernels.cache_name import NAME_BEGIN, cache_name, kernel_files

_CACHE: Final = "EMBERMQ_CACHE"
_CACHE_OF_USER: Final = "XDG_CACHE_HOME"
_MARK_BEGIN: Final = "complete-"
_PACKAGES: Final = ("numba", "llvmlite", "numpy")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_UNUSED_S: Final = 7 * 24 * 3600


def find_folder() -> Path:
    """Where compiled kernels are kept; the folder may not be there yet."""
    chosen = os.environ.get(_CACHE)
    if chosen:
        return Path(chosen).absolute() / cache_name()
    cache = os.environ.get(_CACHE_OF_USER)
    parent = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return parent / "embermq" / "kernels" / cache_name()


def make_private(folder: Path) -> None:
    """Make the folder if it is not there. Raises OSError, or CacheUnsafe if others could put code into it."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    check_private(folder)


def check_private(folder: Path) -> None:
    """Raise CacheUnsafe if anybody else could put code into `folder`, OSError if there is none."""
    for path in (folder.parent, folder):
        status = path.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise CacheUnsafe(path, "it is no folder")
        if status.st_uid != os.geteuid():
            raise CacheUnsafe(path, f"it belongs to user {status.st_uid}, not to {os.geteuid()}")
        if status.st_mode & _OTHERS_WRITE:
            raise CacheUnsafe(path, f"others may write into it (mode {stat.S_IMODE(status.st_mode):04o})")


def is_complete(folder: Path) -> bool:
    """Whether `folder` can be trusted, and all kernels were compiled there for what runs now."""
    try:
        check_private(folder)
    except (OSError, CacheUnsafe):
        return False
    return (folder / mark_name()).is_file()


def mark_complete(folder: Path) -> None:
    """Say that all kernels are in `folder`, and in use today."""
    (folder / mark_name()).touch(mode=0o600)
    os.utime(folder)


def mark_name() -> str:
    """A name that stands for all that machine code depends on besides the kernels: another one makes it stale."""
    facts = [sys.version, platform.machine(), _processor()]
    # numba keeps code apart for every place of a source, and drops it when the file has another time.
    facts += [f"{path}={path.stat().st_mtime_ns}" for path in kernel_files()]
    facts += [f"{name}={_version_of(name)}" for name in _PACKAGES]
    facts += sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))
    facts = [fact for fact in facts if not fact.startswith("NUMBA_CACHE_DIR=")]
    return _MARK_BEGIN + hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def remove_unused(folder: Path) -> list[Path]:
    """Remove the folders of former kernels beside `folder` that nobody used for a week; returns them."""
    unused = [path for path in sorted(folder.parent.iterdir()) if path != folder and _is_unused(path)]
    for path in unused:
        shutil.rmtree(path, ignore_errors=True)  # what is left of it is for the next load
    return unused


def _is_unused(path: Path) -> bool:
    """Whether `path` is a folder that we made for kernels, and was left behind."""
    try:
        status = path.lstat()
        return (
            path.name.startswith(NAME_BEGIN)
            and stat.S_ISDIR(status.st_mode)
            and status.st_uid == os.geteuid()
            and time.time() - status.st_mtime > _UNUSED_S
            and any(each.name.startswith(_MARK_BEGIN) for each in path.iterdir())
        )
    except OSError:  # another process removed it meanwhile, or keeps it from us
        return False


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _processor() -> str:
    """Kind and abilities of the processor, as far as the system tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "CPU part", "Features")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))
