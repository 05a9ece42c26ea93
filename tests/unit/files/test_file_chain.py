"""Files end to end: appending, loading, several paths, deleting, threads."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from embermq.errors import ForeignFile, MissingFile, OutOfRange, WrongFileSize
from embermq.files.file_chain import FileChain
from embermq.files.paths import file_name
from tests.unit.files.file_chains import SIZE, SetClock, a_chain, content, names, write


def test_an_empty_chain_has_nothing_anywhere(tmp_path: Path) -> None:
    chain = a_chain(tmp_path / "missing")
    assert (chain.begin, chain.end, chain.readable_end, chain.flushed, chain.committed) == (0, 0, 0, 0, 0)
    assert (chain.last, chain.find(0), chain.find_by_time(0), chain.select(0, 1)) == (None, None, None, None)
    assert (chain.flush(), chain.commit(), chain.delete_before(99)) == (0, 0, 0)
    assert not (tmp_path / "missing").exists()


def test_a_new_file_begins_where_the_last_one_ends(tmp_path: Path) -> None:
    chain = a_chain(tmp_path, 2 * SIZE)
    assert names(tmp_path) == [0, SIZE]
    write(chain, b"x")
    assert names(tmp_path) == [0, SIZE, 2 * SIZE]
    assert (chain.begin, chain.end) == (0, 2 * SIZE + 1)


def test_the_first_file_begins_below_the_position_asked_for(tmp_path: Path) -> None:
    chain = a_chain(tmp_path)
    assert chain.append_file(3 * SIZE + 5).start == 3 * SIZE
    assert (chain.begin, chain.end) == (3 * SIZE, 3 * SIZE)


def test_every_position_is_found_in_its_file(tmp_path: Path) -> None:
    chain = a_chain(tmp_path)
    chain.append_file(2 * SIZE)
    write(chain, content(2 * SIZE + 1))
    found = {position: chain.find(position) for position in (2 * SIZE - 1, 2 * SIZE, 4 * SIZE - 1, 4 * SIZE, 5 * SIZE)}
    assert {position: file and file.start for position, file in found.items()} == {
        2 * SIZE - 1: None, 2 * SIZE: 2 * SIZE, 4 * SIZE - 1: 3 * SIZE, 4 * SIZE: 4 * SIZE, 5 * SIZE: None,
    }  # fmt: skip


@pytest.mark.parametrize(("position", "size"), [(0, SIZE), (SIZE - 1, 1), (SIZE, 10), (SIZE + 9, 1)])
def test_what_is_written_can_be_selected(tmp_path: Path, position: int, size: int) -> None:
    chain = a_chain(tmp_path, SIZE + 10)
    assert chain.select(position, size) == content(SIZE + 10)[position : position + size]


@pytest.mark.parametrize(("position", "size"), [(-1, 1), (SIZE - 1, 2), (SIZE + 9, 2), (SIZE + 10, 1), (9 * SIZE, 1)])
def test_what_is_not_written_or_not_in_one_file_cannot(tmp_path: Path, position: int, size: int) -> None:
    assert a_chain(tmp_path, SIZE + 10).select(position, size) is None


def test_the_rest_of_a_file_ends_where_it_is_written(tmp_path: Path) -> None:
    chain, data = a_chain(tmp_path, SIZE + 10), content(SIZE + 10)
    assert chain.select_rest(0) == data[:SIZE]
    assert chain.select_rest(SIZE - 1) == data[SIZE - 1 : SIZE]
    assert chain.select_rest(SIZE + 3) == data[SIZE + 3 :]
    assert chain.select_rest(SIZE + 10) is None
    assert chain.select_rest(2 * SIZE) is None


def test_files_are_found_by_the_time_of_their_change(tmp_path: Path) -> None:
    chain = a_chain(tmp_path, 3 * SIZE)
    for number, file in enumerate(chain.files):
        os.utime(file.path, ns=(0, (number + 1) * 1_000_000_000))
    starts = [file.start for ms in (0, 1000, 1001, 3000, 3001) if (file := chain.find_by_time(ms))]
    assert starts == [0, 0, SIZE, 2 * SIZE, 2 * SIZE]


def test_every_loaded_file_counts_as_full_until_recovery_says_otherwise(tmp_path: Path) -> None:
    a_chain(tmp_path, SIZE + 10).close()
    chain = a_chain(tmp_path)
    assert (chain.begin, chain.end, chain.flushed) == (0, 2 * SIZE, 2 * SIZE)
    chain.set_end(SIZE + 10)
    assert (chain.end, chain.flushed) == (SIZE + 10, SIZE + 10)
    write(chain, b"more")
    assert chain.select(SIZE, 14) == content(SIZE + 10)[SIZE:] + b"more"


def test_an_empty_last_file_is_deleted(tmp_path: Path) -> None:
    a_chain(tmp_path, SIZE).close()
    (tmp_path / file_name(SIZE)).touch()
    assert a_chain(tmp_path).end == SIZE
    assert names(tmp_path) == [0]


def test_an_empty_file_in_the_middle_is_of_the_wrong_size(tmp_path: Path) -> None:
    a_chain(tmp_path, 2 * SIZE).close()
    (tmp_path / file_name(0)).write_bytes(b"")
    chain = FileChain(tmp_path, SIZE, read_only=True)
    with pytest.raises(WrongFileSize):
        chain.load()


def test_a_file_of_the_wrong_size_is_refused_and_nothing_stays_open(tmp_path: Path) -> None:
    a_chain(tmp_path, 2 * SIZE).close()
    (tmp_path / file_name(SIZE)).write_bytes(b"x")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(WrongFileSize) as caught:
        a_chain(tmp_path)
    assert caught.value.path == tmp_path / file_name(SIZE)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ForeignFile):
        a_chain(tmp_path)


def test_a_gap_is_refused(tmp_path: Path) -> None:
    a_chain(tmp_path, 3 * SIZE).close()
    (tmp_path / file_name(SIZE)).unlink()
    with pytest.raises(MissingFile) as caught:
        a_chain(tmp_path)
    assert caught.value.path == tmp_path / file_name(SIZE)


def test_a_chain_that_was_not_loaded_does_not_hide_what_is_there(tmp_path: Path) -> None:
    a_chain(tmp_path, 10).close()
    with pytest.raises(FileExistsError):
        FileChain(tmp_path, SIZE).append_file()


def test_a_read_only_chain_follows_the_one_that_owns_the_files(tmp_path: Path) -> None:
    owner = a_chain(tmp_path, 2 * SIZE)
    reader = FileChain(tmp_path, SIZE, read_only=True)
    reader.load()
    gone, kept = reader.files
    write(owner, b"more")
    (tmp_path / file_name(3 * SIZE)).touch()  # just being made
    owner.delete_before(SIZE)
    reader.load()
    assert [file.start for file in reader.files] == [SIZE, 2 * SIZE]
    assert reader.files[0] is kept
    with pytest.raises(OutOfRange):
        gone.read(0, 1)
    assert reader.select(2 * SIZE, 4) == b"more"
    assert (tmp_path / file_name(3 * SIZE)).exists()


def test_several_paths_are_used_in_turn_and_read_as_one(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    chain = FileChain([one, two], SIZE)
    write(chain, content(3 * SIZE))
    chain.close()
    assert (names(one), names(two)) == ([0, 2 * SIZE], [SIZE])
    again = FileChain([two, one], SIZE)
    again.load()
    assert b"".join(again.select_rest(start) or b"" for start in range(0, 3 * SIZE, SIZE)) == content(3 * SIZE)


def test_no_new_file_is_made_in_a_full_or_read_only_path(tmp_path: Path) -> None:
    old, one, two = tmp_path / "old", tmp_path / "one", tmp_path / "two"
    write(FileChain(old, SIZE), content(2 * SIZE))
    chain = FileChain([one, two, old], SIZE, read_only_paths=[old], is_full=lambda path: path == one)
    chain.load()
    write(chain, content(2 * SIZE))
    assert (names(old), one.exists(), names(two)) == ([0, SIZE], False, [2 * SIZE, 3 * SIZE])
    assert [file.read_only for file in chain.files] == [True, False, False, False]


def test_the_last_file_takes_appends_even_in_a_read_only_path(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    write(FileChain(old, SIZE), content(3 * SIZE))
    chain = FileChain(new, SIZE, read_only_paths=[old])
    chain.load()
    chain.truncate(SIZE + 10)
    write(chain, b"more")
    assert chain.select(SIZE, 14) == content(3 * SIZE)[SIZE : SIZE + 10] + b"more"
    assert names(old) == [0, SIZE]


def test_files_that_end_before_a_position_are_deleted(tmp_path: Path) -> None:
    chain = a_chain(tmp_path, 4 * SIZE)
    assert chain.delete_before(2 * SIZE - 1) == 1
    assert chain.delete_before(2 * SIZE) == 1
    assert (chain.begin, names(tmp_path)) == (2 * SIZE, [2 * SIZE, 3 * SIZE])
    assert chain.select(SIZE, 1) is None
    assert chain.select(2 * SIZE, 1) is not None


def test_the_last_file_is_never_deleted(tmp_path: Path) -> None:
    chain = a_chain(tmp_path, 3 * SIZE)
    assert chain.delete_before(99 * SIZE) == 2
    assert names(tmp_path) == [2 * SIZE]


def test_deleting_stops_at_the_first_file_that_must_stay(tmp_path: Path) -> None:
    chain = a_chain(tmp_path, 6 * SIZE)
    deleted = chain.delete_oldest(lambda file: file.start != 2 * SIZE)
    assert deleted == [tmp_path / file_name(0), tmp_path / file_name(SIZE)]
    assert names(tmp_path) == [2 * SIZE, 3 * SIZE, 4 * SIZE, 5 * SIZE]


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_no_more_files_are_deleted_than_allowed(tmp_path: Path, limit: int) -> None:
    chain = a_chain(tmp_path, 4 * SIZE)
    assert len(chain.delete_oldest(lambda file: True, limit)) == limit
    assert chain.begin == limit * SIZE


def test_a_held_file_is_hidden_and_blocks_what_comes_after_it(tmp_path: Path) -> None:
    chain = a_chain(tmp_path, 4 * SIZE)
    with chain.files[0].hold() as held:
        assert chain.delete_before(3 * SIZE) == 0
        assert chain.delete_before(3 * SIZE) == 0
        assert (chain.hung, chain.begin) == ((held,), SIZE)
        assert names(tmp_path) == [0, SIZE, 2 * SIZE, 3 * SIZE]
    assert chain.delete_before(3 * SIZE) == 2
    assert (chain.hung, names(tmp_path)) == ((), [3 * SIZE])


@pytest.mark.parametrize(("waited_ms", "is_gone"), [(119_999, False), (120_000, True)])
def test_a_file_held_too_long_is_deleted_by_force(tmp_path: Path, waited_ms: int, is_gone: bool) -> None:
    clock = SetClock()
    chain = FileChain(tmp_path, SIZE, clock=clock)
    write(chain, content(2 * SIZE))
    with chain.files[0].hold() as held:
        view = held.select(0, 4)
        chain.delete_before(SIZE)
        clock.ms += waited_ms
        assert chain.retry_hung(120_000, clock.now_ms()) is is_gone
        assert (tmp_path / file_name(0)).exists() is not is_gone
        assert view == content(4)


def test_a_chain_can_be_destroyed_and_begun_anew(tmp_path: Path) -> None:
    chain = a_chain(tmp_path / "queue", 2 * SIZE + 1)
    chain.destroy()
    assert not (tmp_path / "queue").exists()
    assert (chain.files, chain.end) == ((), 0)
    chain.append_file(5 * SIZE)
    assert names(tmp_path / "queue") == [5 * SIZE]


def test_a_directory_with_something_else_in_it_is_not_removed(tmp_path: Path) -> None:
    chain = a_chain(tmp_path / "queue", 1)
    (tmp_path / "queue" / "compacting").mkdir()
    chain.destroy()
    assert [path.name for path in (tmp_path / "queue").iterdir()] == ["compacting"]


def test_readers_see_whole_appends_while_files_come_and_go(tmp_path: Path) -> None:
    """A writer appends numbered blocks, a cleaner deletes old files, readers check every byte they get."""
    chain = a_chain(tmp_path)
    block, total = 64, 40 * SIZE // 64
    done, wrong = threading.Event(), []

    def read() -> None:
        while not done.is_set():
            data = chain.select_rest(position := chain.end - chain.end % SIZE - SIZE)
            for at in range(0, len(data or b"") - block + 1, block):
                assert data is not None
                if data[at : at + block] != ((position + at) // block).to_bytes(block, "big"):
                    wrong.append(position + at)

    def clean() -> None:
        while not done.is_set():
            chain.delete_before(chain.end - 2 * SIZE)
            chain.flush()

    threads = [threading.Thread(target=work) for work in (read, read, clean)]
    for thread in threads:
        thread.start()
    try:
        for number in range(total):
            chain.append_file().append(number.to_bytes(block, "big"))
    finally:
        done.set()
        for thread in threads:
            thread.join(10)
    assert (wrong, chain.end) == ([], total * block)
    assert chain.flush() == chain.end
