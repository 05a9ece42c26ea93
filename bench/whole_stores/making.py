"""Stores of several GiB: four topics with six queues each, two keys a message.

The second log file and those behind it are like the first but for positions and offsets, so each key of a queue comes
once a file. Making one takes a minute, so it may be kept: a file beside it says what it has.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.scan import TOPICS, make_log
from embermq import open_store
from embermq.model.topic import TopicConfig

QUEUES = 6
DERIVED = ("consumequeue", "index")
FACTS = "made.json"


class Store(NamedTuple):
    """A store to work on."""

    path: Path
    body: int
    size: int  # bytes of records
    records: int
    keys: int  # by queue, which compaction keeps one message of each of
    file_size: int  # of the log


def get_or_make(folder: Path, body: int, files: int, file_size: int) -> Store:
    """The store that an earlier run has made in `folder`, or a new one."""
    facts = folder / FACTS
    wanted = {"body": body, "files": files, "file_size": file_size}
    if facts.exists():
        found = json.loads(facts.read_text())
        if found["wanted"] == wanted:
            return Store(folder / "store", body, *found["numbers"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    store = make_store(folder / "store", body, files, file_size)
    facts.write_text(json.dumps({"wanted": wanted, "numbers": store[2:]}) + "\n")
    return store


def make_store(path: Path, body: int, files: int, file_size: int) -> Store:
    """A log of some files; no queues, no index."""
    with open_store(path, log_file_size=file_size) as store:
        for topic in TOPICS:
            store.save_topic(TopicConfig(topic.decode(), read_queues=QUEUES, write_queues=QUEUES))
    shutil.rmtree(path / "commitlog")
    remove_derived(path)
    _, size = make_log(path, body, file_size)
    first = path / "commitlog" / f"{0:020d}"
    data = np.fromfile(first, np.uint8)
    places = _record_places(data)
    turns = np.arange(len(places)) % (len(TOPICS) * QUEUES)  # queues take turns
    in_queue = np.bincount(turns)[turns]  # how many messages of a file are in the queue of each
    for number in range(1, files):
        moved = data.copy()
        _add(moved, places + 28, np.int64(number * file_size))
        _add(moved, places + 20, number * in_queue)
        moved.tofile(path / "commitlog" / f"{number * file_size:020d}")
    os.sync()  # or what is measured would wait for the disk to take all this
    keys = len(places)  # of one file: they come again in others
    return Store(path, body, size * files, len(places) * files, keys, file_size)


def remove_derived(path: Path) -> None:
    """Leave of a store the log alone."""
    for folder in DERIVED:
        shutil.rmtree(path / folder, ignore_errors=True)
    (path / "checkpoint").unlink(missing_ok=True)


def _record_places(data: np.ndarray) -> np.ndarray:
    """Where the records of a log file begin."""
    from embermq.kernels.columns import RECORD_POSITION, RECORD_WIDTH
    from embermq.kernels.record_scan import scan_records

    rows = np.empty((len(data) // 91, RECORD_WIDTH), np.int64)
    count, _, _ = scan_records(int(data.ctypes.data), len(data), 0, False, rows)
    return rows[:count, RECORD_POSITION].copy()


def _add(data: np.ndarray, places: np.ndarray, numbers: np.ndarray | np.int64) -> None:
    """Add numbers to those of eight bytes at some places."""
    bytes_at = places[:, None] + np.arange(8)
    values = data[bytes_at].copy().view(">i8")[:, 0]
    data[bytes_at] = (values + numbers).astype(">i8")[:, None].view(np.uint8)
