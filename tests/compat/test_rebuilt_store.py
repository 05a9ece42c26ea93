"""RocketMQ opens stores whose queues and index were rebuilt, and answers from them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from embermq.jobs.in_place import rebuild_in_place
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.store.settings import StoreSettings
from tests.builders import SMALL_SIZES
from tests.compat.agreement import check_rocketmq_sees, check_we_see
from tests.compat.samples import ROCKETMQ, TOPICS, fill, for_rocketmq, open_samples
from tests.compat.store_tool import StoreTool
from tests.compat.views import DERIVED_FOLDERS, our_records

SIZES = {name: size for name, size in SMALL_SIZES.items() if name != "log_file_size"}


def rebuilt(path: Path) -> None:
    settings = StoreSettings(**SIZES)
    rebuild_in_place(path, runner=LocalRunner(2), progress=Progress("rebuild"), settings=settings, range_size=20_000)


def break_all(path: Path) -> None:
    for folder in DERIVED_FOLDERS:
        for file in (path / folder).rglob("*"):
            if file.is_file():
                file.write_bytes(os.urandom(file.stat().st_size))


@pytest.mark.parametrize("how", ["broken", "missing"])
def test_rocketmq_reads_a_store_of_ours_that_was_rebuilt(store_tool: StoreTool, tmp_path: Path, how: str) -> None:
    store, _, _ = fill(tmp_path / "store", "async")
    store.close()
    records = our_records(store.path)
    if how == "broken":
        break_all(store.path)
    else:
        for folder in DERIVED_FOLDERS:
            shutil.rmtree(store.path / folder, ignore_errors=True)
    rebuilt(store.path)
    check_rocketmq_sees(store_tool, store.path, records)
    with open_samples(store.path) as store:
        check_we_see(store, records)


@pytest.mark.parametrize("crash", [False, True], ids=["closed", "crashed"])
def test_rocketmq_reads_its_own_store_that_was_rebuilt(store_tool: StoreTool, tmp_path: Path, crash: bool) -> None:
    path = tmp_path / "store"
    path.mkdir()
    store_tool.write(path, for_rocketmq(seed=5), config=ROCKETMQ, topics=TOPICS, crash=crash)
    records = our_records(path)
    break_all(path)
    rebuilt(path)
    check_rocketmq_sees(store_tool, path, records)
    store_tool.write(path, for_rocketmq(seed=6), config=ROCKETMQ, topics=TOPICS)
    check_rocketmq_sees(store_tool, path, our_records(path))
