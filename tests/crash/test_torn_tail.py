"""The last record of the log, cut short at every byte: what a crash leaves of a write that it interrupted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.builders import a_store
from tests.crash.damage import COUNT, iter_records, keys_found, make_stores, message_of, overwrite, survey, verify


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stores(tmp_path_factory.mktemp("torn")).crashed


def test_a_record_cut_at_any_byte_is_gone_and_no_other(crashed: Path, memory_path: Path) -> None:
    position, size = list(iter_records(crashed))[-1]
    for kept in range(size):
        print(f"{kept} bytes of {size} kept")
        path = memory_path / str(kept)
        shutil.copytree(crashed, path)
        overwrite(path, position + kept, bytes(size - kept))
        with a_store(path) as store:
            assert store.state().log_written == position
            found = survey(store)
            assert (found.right, found.missing) == (COUNT - 1, 1)
            # What was written of it is kept aside, unless it is only the three zeros that its size begins with.
            assert len(store.state().recovered.kept) == (kept > 3)
        shutil.rmtree(path)


@pytest.mark.parametrize("kept", [0, 1, 50, 91, 120])
def test_the_store_goes_on_behind_a_cut(crashed: Path, tmp_path: Path, kept: int) -> None:
    position, size = list(iter_records(crashed))[-1]
    path = tmp_path / "store"
    shutil.copytree(crashed, path)
    overwrite(path, position + kept, bytes(size - kept))
    with a_store(path) as store:
        store.put(message_of(COUNT - 1))
        assert survey(store).is_whole and keys_found(store) == COUNT
    assert verify(path).sound


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_log_cut_at_any_byte_behind_the_checkpoint_keeps_all_before(crashed: Path, memory_path: Path) -> None:
    records = list(iter_records(crashed))
    for number in range(COUNT - 12, COUNT):
        position, size = records[number]
        for kept in range(size):
            print(f"record {number}: {kept} bytes of {size} kept, all behind it zero")
            path = memory_path / "store"
            shutil.copytree(crashed, path)
            overwrite(path, position + kept, bytes(size - kept))
            for later, later_size in records[number + 1 :]:
                overwrite(path, later, bytes(later_size))
            with a_store(path) as store:
                found = survey(store)
                assert (found.right, found.missing) == (number, COUNT - number)
            shutil.rmtree(path)
