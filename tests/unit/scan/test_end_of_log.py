"""Where the records of a log end that no queue tells of: what plain code finds, kernels find."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from embermq.kernels import loading
from embermq.scan.splits import StorePlace
from embermq.scan.survey import Survey
from tests.builders import a_store, some_messages
from tests.unit.store.planting import records_of

COUNT = 10_000
FILE_SIZE = 1 << 21
PLAIN = 4_200  # records of a file, more than plain code passes before kernels go on
pytestmark = pytest.mark.skipif(not loading.is_installed(), reason="needs numba")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several files, without queues."""
    path = tmp_path_factory.mktemp("log") / "store"
    with a_store(path, log_file_size=FILE_SIZE) as store:
        store.put_many(some_messages(COUNT, size=100))
    shutil.rmtree(path / "consumequeue")
    return path


def end_of(path: Path) -> int:
    with closing(Survey(StorePlace(str(path)))) as survey:
        return survey.end


@pytest.mark.parametrize("seed", range(4))
def test_kernels_find_the_end_that_plain_code_finds(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    loading.load()
    records = records_of(log)
    assert len(records) == COUNT
    whole = end_of(log)
    assert whole == records[-1].position + records[-1].size
    first = [record for record in records if record.position < FILE_SIZE]
    assert len(records) > len(first) > PLAIN
    damaged = random.Random(seed).choice(first[PLAIN:])
    path = shutil.copytree(log, tmp_path / "store")
    with (path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(damaged.position + 90 + seed)
        file.write(b"\xff\x00\xff")
    assert end_of(path) == damaged.position
    monkeypatch.setattr("embermq.scan.end_of_log.has_kernels", lambda: False)
    assert end_of(path) == damaged.position
    assert end_of(log) == whole
