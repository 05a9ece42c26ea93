"""The buffer that scattered records are copied to, and the files that they are copied from."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from random import Random

import pytest

from embermq.files.file_chain import FileChain
from embermq.format.queue_entry import QueueEntry, encode_queue_entry
from embermq.kernels import loading
from embermq.store.gathering import gather_stretches

loading.load()

from embermq.store.gather_compiled import CompiledGather  # noqa: E402 - imports numpy, once kernels are loaded

FILE_SIZE = 65_536


@pytest.fixture
def chain(tmp_path: Path) -> FileChain:
    chain = FileChain(tmp_path / "log", FILE_SIZE)
    for seed in range(2):
        chain.append_file().append(Random(seed).randbytes(FILE_SIZE))
    return chain


def scattered(begin: int, count: int = 20, size: int = 100) -> memoryview:
    """Entries of records with something between each other."""
    entries = [QueueEntry(begin + number * 2 * size, size, 0) for number in range(count)]
    return memoryview(b"".join(map(encode_queue_entry, entries)))


def data_of(chain: FileChain, entries: memoryview) -> bytes:
    return b"".join(gather_stretches(entries, chain, 1 << 20).parts)


def test_an_answer_that_somebody_keeps_stays_as_it_is(chain: FileChain) -> None:
    gather = CompiledGather(buffer_size=10_000)
    kept = [(begin, gather(scattered(begin), chain, 1 << 20)) for begin in range(0, 10_000, 500)]  # five fit into it
    for begin, found in kept:
        assert b"".join(found.parts) == data_of(chain, scattered(begin))


def test_the_buffer_is_used_again_when_nobody_has_a_view_of_it(chain: FileChain) -> None:
    gather = CompiledGather(buffer_size=10_000)
    for begin in range(0, 30_000, 500):
        (part,) = gather(scattered(begin), chain, 1 << 20).parts
        assert not part.readonly, "copied"
        assert gather._buffer.used == len(part) == 2_000
        del part


def test_a_slice_of_an_answer_keeps_the_buffer_too(chain: FileChain) -> None:
    gather = CompiledGather(buffer_size=10_000)
    (part,) = gather(scattered(0), chain, 1 << 20).parts
    end = part[1_900:]
    del part
    (other,) = gather(scattered(7_000), chain, 1 << 20).parts
    assert end == data_of(chain, scattered(0))[1_900:]
    assert other == data_of(chain, scattered(7_000))


def test_records_in_large_pieces_are_not_copied(chain: FileChain) -> None:
    gather = CompiledGather()
    found = gather(scattered(0, count=3, size=9_000), chain, 1 << 20)
    assert [part.readonly for part in found.parts] == [True] * 3
    assert b"".join(found.parts) == data_of(chain, scattered(0, count=3, size=9_000))


def test_entries_for_two_files_are_read_as_ordinary_ones(chain: FileChain) -> None:
    both = memoryview(b"".join((scattered(0), scattered(FILE_SIZE))))
    found = CompiledGather()(both, chain, 1 << 20)
    assert found.records == 40
    assert b"".join(found.parts) == data_of(chain, both)


def test_a_deleted_file_is_let_go(chain: FileChain) -> None:
    gather = CompiledGather()
    assert gather(scattered(0), chain, 1 << 20).records == 20
    gone = weakref.ref(chain.files[0].view)
    chain.delete_before(FILE_SIZE)
    gc.collect()
    assert gone() is None
    assert gather._addresses == {}
    assert gather(scattered(0), chain, 1 << 20).records == 0
    assert gather(scattered(FILE_SIZE), chain, 1 << 20).records == 20
