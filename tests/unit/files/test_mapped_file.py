from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from embermq.errors import FileFull, FileSealed, OutOfRange, SyncFailed, WrongFileSize
from embermq.files.mapped_file import MappedFile

SIZE = 1 << 16
NAME = f"{SIZE * 3:020d}"


def a_file(folder: Path, *, written: int = 0, reserve_step: int = 0, size: int = SIZE) -> MappedFile:
    return MappedFile.open(folder / NAME, size, written=written, reserve_step=reserve_step)


def fail_syncs(monkeypatch: pytest.MonkeyPatch, code: int = errno.EIO) -> list[int]:
    calls: list[int] = []

    def fail(descriptor: int) -> None:
        calls.append(descriptor)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fdatasync", fail)
    return calls


def count_syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        calls.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync)
    return calls


def test_a_new_file_is_all_zeros_and_begins_where_its_name_says(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    assert (file.start, file.size, file.written, file.flushed) == (SIZE * 3, SIZE, 0, 0)
    assert (tmp_path / NAME).read_bytes() == bytes(SIZE)


def test_a_file_of_another_size_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"x" * (SIZE - 1))
    with pytest.raises(WrongFileSize) as caught:
        a_file(tmp_path)
    assert (caught.value.found, caught.value.expected) == (SIZE - 1, SIZE)
    assert (tmp_path / NAME).stat().st_size == SIZE - 1


def test_appends_lie_end_to_end_and_answer_with_log_positions(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    assert file.append(b"one") == SIZE * 3
    assert file.append(memoryview(b"four")) == SIZE * 3 + 3
    assert file.append(bytearray(b"!")) == SIZE * 3 + 7
    assert file.read(0, file.written) == b"onefour!"


def test_the_last_byte_fits_and_the_next_does_not(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"a" * (SIZE - 1))
    with pytest.raises(FileFull):
        file.append(b"bb")
    assert file.written == SIZE - 1
    file.append(b"b")
    assert file.is_full
    with pytest.raises(FileFull):
        file.append(b"c")


def test_an_append_is_in_the_file_when_it_is_opened_again(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"kept")
    file.close()
    assert a_file(tmp_path, written=4).read(0, 4) == b"kept"


def test_what_a_callback_writes_is_appended_where_it_was_told(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"12345")

    def write(space: memoryview, position: int) -> int:
        assert (len(space), position) == (SIZE - 5, SIZE * 3 + 5)
        space[:3] = b"abc"
        return 3

    assert file.append_with(write) == SIZE * 3 + 5
    assert file.read(0, 8) == b"12345abc"


def test_a_callback_that_fails_leaves_no_byte_behind(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"12345")

    def write(space: memoryview, position: int) -> int:
        space[:3] = b"abc"
        space[-3:] = b"xyz"
        raise RuntimeError("cannot be encoded")

    with pytest.raises(RuntimeError):
        file.append_with(write)
    assert file.written == 5
    assert (tmp_path / NAME).read_bytes() == b"12345".ljust(SIZE, b"\0")


def test_filling_makes_a_file_full_of_what_it_has_and_zeros(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"1")
    file.fill()
    assert file.is_full
    assert file.read(0, SIZE) == b"1".ljust(SIZE, b"\0")


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, 5), (4, 1), (5, 0), (SIZE, 1)])
def test_only_what_is_written_can_be_read(tmp_path: Path, offset: int, size: int) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    with pytest.raises(OutOfRange):
        file.read(offset, size)


@pytest.mark.parametrize(("offset", "size"), [(0, 4), (3, 1), (4, 0)])
def test_all_that_is_written_can_be_read(tmp_path: Path, offset: int, size: int) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    assert file.select(offset, size) == b"1234"[offset : offset + size]


def test_readers_cannot_write(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    with pytest.raises(TypeError):
        file.select(0, 4)[0] = 1


def test_overwriting_moves_no_position_but_wants_a_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = count_syncs(monkeypatch)
    file = a_file(tmp_path)
    file.write_at(100, b"slot")
    assert (file.written, file.flushed, file.is_dirty) == (0, 0, True)
    file.flush()
    assert (len(syncs), file.is_dirty) == (1, False)
    file.flush()
    assert len(syncs) == 1
    assert (tmp_path / NAME).read_bytes()[100:104] == b"slot"


def test_overwriting_ends_where_the_file_ends(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.write_at(SIZE - 4, b"last")
    with pytest.raises(FileFull):
        file.write_at(SIZE - 3, b"last")


def test_a_read_only_file_shows_its_bytes_and_is_never_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MappedFile.open(tmp_path / NAME, SIZE, read_only=True)
    a_file(tmp_path).append(b"1234")
    file = MappedFile.open(tmp_path / NAME, SIZE, written=SIZE, read_only=True)
    assert file.read(0, 4) == b"1234"
    with pytest.raises(AssertionError):
        file.write_at(0, b"5")
    assert file.flush() == SIZE


# Space


def test_space_is_reserved_in_steps_before_it_is_written(tmp_path: Path) -> None:
    file = a_file(tmp_path, size=1 << 20, reserve_step=1 << 16)
    file.append(b"x")
    one_step = (tmp_path / NAME).stat().st_blocks * 512
    assert 1 << 16 <= one_step < 1 << 18
    file.append(b"x" * (1 << 16))
    assert (tmp_path / NAME).stat().st_blocks * 512 >= 2 << 16


def test_without_steps_the_whole_file_is_reserved_at_once(tmp_path: Path) -> None:
    file = a_file(tmp_path, size=1 << 20)
    file.append(b"x")
    assert (tmp_path / NAME).stat().st_blocks * 512 >= 1 << 20


@pytest.mark.parametrize("act", [
    lambda file: file.append(b"more"),
    lambda file: file.write_at(0, b"more than that"),
    lambda file: file.append_with(lambda space, position: 1),
    lambda file: file.fill(),
    lambda file: file.reserve(5),
])  # fmt: skip
def test_a_full_disk_is_an_error_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[MappedFile], object]
) -> None:
    file = a_file(tmp_path, reserve_step=4)
    file.append(b"1234")

    def no_space(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_space)
    with pytest.raises(OSError, match=NAME) as caught:
        act(file)
    assert caught.value.errno == errno.ENOSPC
    assert (file.written, file.is_dirty, file.sealed) == (4, True, False)
    assert (tmp_path / NAME).read_bytes() == b"1234".ljust(SIZE, b"\0")
    monkeypatch.undo()
    file.append(b"5")  # space came back
    assert file.read(0, 5) == b"12345"


# Flushing


def test_flushed_follows_written_when_the_sync_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = count_syncs(monkeypatch)
    file = a_file(tmp_path)
    file.append(b"1234")
    assert file.flushed == 0
    assert file.flush() == file.flushed == 4
    assert file.flush() == 4
    assert len(syncs) == 1  # nothing pending, nothing synced


@pytest.mark.parametrize(("flushed", "written", "least_pages", "moves"), [
    (0, 4095, 1, False),
    (0, 4096, 1, True),
    (4095, 4096, 1, True),  # counted in pages touched, not in bytes
    (1, 4 * 4096 - 1, 4, False),
    (1, 4 * 4096, 4, True),
    (0, 1, 0, True),
    (SIZE - 1, SIZE, 9, True),  # a full file waits for nothing
    (SIZE - 2, SIZE - 1, 9, False),
])  # fmt: skip
def test_a_flush_waits_for_enough_pages_unless_the_file_is_full(
    tmp_path: Path, flushed: int, written: int, least_pages: int, moves: bool
) -> None:
    file = a_file(tmp_path)
    file.append(bytes(flushed))
    file.flush()
    file.append(bytes(written - flushed))
    assert file.flush(least_pages) == (written if moves else flushed)


def test_what_is_appended_during_a_sync_is_not_called_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        file.append(b"56")
        file.write_at(0, b"!")
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync)
    assert file.flush() == 4
    assert (file.written, file.is_dirty) == (6, True)


def test_a_failed_sync_moves_nothing_and_seals_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = a_file(tmp_path)
    file.append(b"12")
    file.flush()
    file.append(b"34")
    fail_syncs(monkeypatch)
    with pytest.raises(SyncFailed) as caught:
        file.flush()
    assert caught.value.cause.errno == errno.EIO
    assert (file.flushed, file.written, file.sealed) == (2, 4, True)


def test_a_sealed_file_can_be_read_but_is_never_synced_or_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    fail_syncs(monkeypatch)
    with pytest.raises(SyncFailed):
        file.flush()
    monkeypatch.undo()
    syncs = count_syncs(monkeypatch)
    for act in (file.flush, file.sync, lambda: file.append(b"5"), lambda: file.write_at(0, b"5"), file.fill):
        with pytest.raises(FileSealed):
            act()
    assert (syncs, file.flushed, file.written) == ([], 0, 4)
    assert file.read(0, 4) == b"1234"


def test_a_sync_that_failed_for_an_overwrite_does_not_pass_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = a_file(tmp_path)
    file.write_at(0, b"header")
    fail_syncs(monkeypatch)
    with pytest.raises(SyncFailed):
        file.flush()
    with pytest.raises(FileSealed):
        file.flush()


def test_of_two_flushes_at_once_none_succeeds_when_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of a failed write once; a second sync would be told that all is well."""
    file = a_file(tmp_path)
    file.append(b"1234")
    first, second, answer = threading.Event(), threading.Event(), threading.Event()

    def sync(descriptor: int) -> None:
        if first.is_set():
            second.set()
            return
        first.set()
        assert answer.wait(10)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", sync)
    errors: list[Exception] = []

    def flush() -> None:
        try:
            file.flush()
        except (SyncFailed, FileSealed) as error:
            errors.append(error)

    threads = [threading.Thread(target=flush) for _ in range(2)]
    threads[0].start()
    assert first.wait(10)
    threads[1].start()
    assert not second.wait(0.1)
    answer.set()
    for thread in threads:
        thread.join(10)
    assert (len(errors), second.is_set(), file.flushed) == (2, False, 0)


def test_a_file_that_is_going_away_is_not_called_flushed(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    with file.hold():
        assert not file.destroy()
        assert file.flush() == 0


# Cutting


def test_truncating_lowers_every_position_and_zeroes_the_rest_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = count_syncs(monkeypatch)
    file = a_file(tmp_path)
    file.append(b"x" * 50_000)
    file.flush()
    file.truncate(10)
    assert (file.written, file.committed, file.flushed) == (10, 10, 10)
    assert (tmp_path / NAME).read_bytes() == b"x" * 10 + bytes(SIZE - 10)
    assert len(syncs) == 2  # the zeros are on disk before anything new is written after them


def test_truncating_at_the_end_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = count_syncs(monkeypatch)
    file = a_file(tmp_path)
    file.append(b"1234")
    file.truncate(4)
    file.truncate(5)
    assert (file.written, file.flushed, syncs) == (4, 0, [])


def test_truncating_clears_bytes_beyond_an_end_that_recovery_set(tmp_path: Path) -> None:
    content = b"whole" + b"torn".rjust(5000, b"\0")
    (tmp_path / NAME).write_bytes(content.ljust(SIZE, b"\0"))
    file = a_file(tmp_path, written=SIZE)
    file.set_end(5)
    assert (tmp_path / NAME).read_bytes().rstrip(b"\0") == content
    file.truncate(5)
    assert (tmp_path / NAME).read_bytes().rstrip(b"\0") == b"whole"


def test_truncating_clears_what_was_there_before_the_file_was_opened(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"wholetorn".ljust(SIZE, b"\0"))
    a_file(tmp_path, written=5).truncate(5)
    assert (tmp_path / NAME).read_bytes().rstrip(b"\0") == b"whole"


def test_truncating_clears_appends_that_a_set_end_took_back(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"wholetorn")
    file.set_end(5)
    file.truncate(5)
    assert (tmp_path / NAME).read_bytes().rstrip(b"\0") == b"whole"


def test_truncating_a_sparse_file_takes_no_space(tmp_path: Path) -> None:
    with (tmp_path / NAME).open("wb") as sparse:
        sparse.write(b"1234")
        sparse.truncate(8 << 20)
    file = a_file(tmp_path, size=8 << 20, written=8 << 20)
    file.truncate(2)
    assert (tmp_path / NAME).stat().st_blocks * 512 < 1 << 20
    assert (tmp_path / NAME).read_bytes() == b"12".ljust(8 << 20, b"\0")


def test_appends_go_on_after_a_cut(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"123456")
    file.truncate(2)
    assert file.append(b"ab") == SIZE * 3 + 2
    assert (tmp_path / NAME).read_bytes().rstrip(b"\0") == b"12ab"


# Holding and going away


def test_a_file_nobody_holds_is_destroyed_at_once(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    assert file.destroy()
    assert not (tmp_path / NAME).exists()
    assert file.destroy()  # asking again is no error


def test_a_held_file_stays_until_it_is_released_and_takes_no_new_holders(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    with file.hold():
        assert not file.destroy(now_ms=7)
        assert (tmp_path / NAME).exists()
        assert not file.is_available
        assert not file.acquire()
        with pytest.raises(OutOfRange), file.hold():
            pass
        assert file.read(0, 4) == b"1234"
        assert not file.destroy(now_ms=8)
        assert file.first_shutdown_ms == 7
    assert file.destroy()
    assert not (tmp_path / NAME).exists()


def test_a_forced_end_deletes_the_file_under_its_holder_who_can_still_read(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    with file.hold():
        view = file.select(0, 4)
        assert file.destroy(force=True)
        assert not (tmp_path / NAME).exists()
        assert file.read(0, 4) == b"1234"
    assert view == b"1234"
    with pytest.raises(OutOfRange):
        file.read(0, 4)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_a_view_outlives_its_file_and_the_map_goes_with_it(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    view = file.select(1, 2)
    file.destroy()
    assert view == b"23"
    assert is_mapped(tmp_path / NAME)
    del view
    assert not is_mapped(tmp_path / NAME)


def test_closing_gives_back_every_descriptor_and_the_map(tmp_path: Path) -> None:
    before = open_descriptors()
    file = a_file(tmp_path)
    file.append(b"1234")
    file.close()
    file.close()
    assert open_descriptors() == before
    assert not is_mapped(tmp_path / NAME)
    with pytest.raises(OutOfRange):
        file.read(0, 4)
    with pytest.raises(FileSealed, match="closed"):
        file.append(b"5")


def test_a_refused_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"x")
    before = open_descriptors()
    with pytest.raises(WrongFileSize):
        a_file(tmp_path)
    assert open_descriptors() == before


# Pages


def test_warming_changes_no_byte_and_gets_the_space_it_needs(tmp_path: Path) -> None:
    file = a_file(tmp_path, size=1 << 20, reserve_step=1 << 16)
    file.append(b"1234")
    file.warm(0, 1 << 18)
    assert 1 << 18 <= (tmp_path / NAME).stat().st_blocks * 512 < 1 << 19
    assert (tmp_path / NAME).read_bytes() == b"1234".ljust(1 << 20, b"\0")


def test_warming_a_closed_file_does_nothing(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.reserve(SIZE)
    file.close()
    file.warm(0, SIZE)


def test_pages_can_be_locked_and_unlocked(tmp_path: Path) -> None:
    def locked_kib() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmLck:")[1].split()[0])

    file = a_file(tmp_path)
    before = locked_kib()
    try:
        file.lock_pages()
    except OSError:
        pytest.skip("no right to lock memory")
    assert locked_kib() == before + SIZE // 1024
    file.unlock_pages()
    assert locked_kib() == before


def test_the_time_of_change_is_that_of_the_file(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.advise_random()
    os.utime(tmp_path / NAME, ns=(0, 1_700_000_000_123_456_789))
    assert file.modified_ms == 1_700_000_000_123
