"""A program that archives a store and is killed at one step after the other; after each kill it goes on to the end.

    python archive_sweep.py <format> <store> <folder> <first> <every>

A step is a change that it makes to the archive, or a sync. It kills itself before step `first`, then, with another
archive, before step `first + every`, and so on, until an archive gets whole before that step comes. Each time another
process brings the archive to its end, and checks what it holds. Prints how many steps there were, or what was wrong.

Every life is a fork of this process, which itself does nothing but import: so a life costs no start of Python.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import deltalake
import pyiceberg.io.pyarrow

from embermq.archive.target import Target
from tests.archive_checks import archive, left_files, rows_of_archive, rows_of_store
from tests.crash.sweeping import KILLED, Steps, live

BATCH_BYTES = 12_000


def archive_until(step: int, format: str, store: Path, target: Path) -> None:
    steps = Steps(step)
    steps.watch(Target, "write", "move", "delete", "make_folder", "sync", "sync_new")
    steps.watch(os, "fsync", "replace")
    steps.watch(deltalake.DeltaTable, "create_write_transaction")
    steps.watch(pyiceberg.io.pyarrow.PyArrowFile, "create")
    archive(store, target, format, batch_bytes=BATCH_BYTES)


def finish(format: str, store: Path, target: Path) -> None:
    archive(store, target, format, batch_bytes=BATCH_BYTES)
    assert rows_of_archive(target, format) == rows_of_store(store), "the archive holds other rows than the store"
    assert left_files(target, format) == set(), "files are left over"


def main(format: str, store: Path, folder: Path, first: int, every: int) -> None:
    step = first
    while True:
        target = folder / f"{format}-{step}"
        ended = live(lambda step=step, target=target: archive_until(step, format, store, target))
        if ended not in (0, KILLED):
            sys.exit(f"{format}, step {step}: ended with {ended}")
        if live(lambda target=target: finish(format, store, target)) != 0:
            sys.exit(f"{format}, killed before step {step}: not as it should be; see above")
        shutil.rmtree(target)
        if ended == 0:
            print(step)
            return
        step += every


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
