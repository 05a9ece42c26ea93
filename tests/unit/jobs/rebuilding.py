"""How tests of rebuilds look at what was made."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from embermq import open_store
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.jobs.rebuild import Rebuilt, rebuild
from tests.builders import SMALL_SIZES, a_store

DERIVED = ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
SIZES = {name: value for name, value in SMALL_SIZES.items() if name != "log_file_size"}


def rebuilt(path: Path, out: Path, *, workers: int = 2, **options: Any) -> Rebuilt:
    from embermq.store.settings import StoreSettings

    settings = StoreSettings(**SIZES)
    options = {"range_size": 9_000, **options}
    return rebuild(path, out, runner=LocalRunner(workers), progress=Progress("rebuild"), settings=settings, **options)


def derived(root: Path) -> dict[str, Any]:
    """The bytes of all queues by their files, and those of the index in their order: their names tell only a time."""
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for folder in DERIVED[:3]
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }
    return {**files, "index": [path.read_bytes() for path in sorted((root / "index").glob("*"))]}


def filled_by_the_store(path: Path, copy: Path) -> dict[str, Any]:
    """What the store itself fills queues and index with when they are missing."""
    shutil.copytree(path, copy)
    for name in DERIVED:
        shutil.rmtree(copy / name, ignore_errors=True)
    with a_store(copy):
        pass
    return derived(copy)


def read_store(path: Path) -> Any:
    return open_store(path, durability="async", reserve_bytes=0, **SMALL_SIZES)
