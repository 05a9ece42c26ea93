"""The name of a folder for compiled kernels: another one whenever a kernel changes, or what is compiled into it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAME_BEGIN: Final = "kernels-"

_PACKAGE: Final = Path(__file__).parents[1]
# Modules that compile nothing.
_PLAIN: Final = {
    *("__init__", "cache_folder", "cache_name", "columns", "commands", "found_records", "loading", "resident_memory"),
    "switching",
}
_IMPORT: Final = re.compile(rb"^from embermq\.([\w.]+) import", re.MULTILINE)


def cache_name() -> str:
    """A name that stands for the sources of all kernels, and of what they take their numbers from, as they are now."""
    digest = hashlib.sha256()
    for name, source in sorted(_iter_sources()):
        digest.update(name.encode() + b"\0" + source)
    return f"{NAME_BEGIN}{digest.hexdigest()[:16]}"


def kernel_files() -> list[Path]:
    """The modules that kernels are in."""
    return sorted(path for path in (_PACKAGE / "kernels").glob("*.py") if path.stem not in _PLAIN)


def _iter_sources() -> Iterator[tuple[str, bytes]]:
    imported: set[str] = set()
    for path in kernel_files():
        source = path.read_bytes()
        imported.update(name.decode() for name in _IMPORT.findall(source))
        yield f"kernels.{path.stem}", source
    for name in imported - {f"kernels.{path.stem}" for path in kernel_files()}:
        yield name, (_PACKAGE / name.replace(".", "/")).with_suffix(".py").read_bytes()
