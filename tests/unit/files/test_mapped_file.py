"""One mapped file: writing, reading, space, holding and going away."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from embermq.errors import FileFull, FileSealed, OutOfRange, WrongFileSize
from embermq.files.mapped_file import HEAD, PAGE, MappedFile
from tests.unit.files.mapped_files import NAME, SIZE, a_file, count_syncs


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


class Watched(mmap.mmap):
    """A map that looks at its first bytes before everything that is written to it."""

    def __setitem__(self, where: object, data: object) -> None:
        self.heads = [*getattr(self, "heads", []), self[:HEAD]]
        super().__setitem__(where, data)  # type: ignore[call-overload]


def test_the_head_of_an_append_is_written_last(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    with (tmp_path / NAME).open("r+b") as opened:
        watched = file._memory = Watched(opened.fileno(), SIZE)
    file.append(b"size+magicthe rest", head=HEAD)
    assert watched.heads == [bytes(HEAD)] * 2
    assert file.read(0, file.written) == b"size+magicthe rest"


def test_the_head_is_written_last_through_the_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_file(tmp_path, reserve_step=PAGE)  # too little for the map
    heads, real = [], os.pwrite

    def write(descriptor: int, data: bytes, at: int) -> int:
        heads.append(file.view[:HEAD].tobytes())
        return real(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", write)
    file.append(b"size+magicthe rest", head=HEAD)
    assert heads == [bytes(HEAD)] * 2
    assert file.read(0, file.written) == b"size+magicthe rest"


def test_an_append_is_in_the_file_when_it_is_opened_again(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"kept")
    file.close()
    assert a_file(tmp_path, written=4).read(0, 4) == b"kept"


def test_what_is_written_at_its_address_is_appended_when_the_file_is_told(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"12345")
    ctypes.memmove(file.address(SIZE) + file.written, b"abc", 3)
    assert file.written == 5
    file.took(3)
    assert file.read(0, 8) == b"12345abc"


def test_filling_can_append_something_first(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"1")
    file.fill(b"23", head=2)
    assert file.is_full
    assert (tmp_path / NAME).read_bytes() == b"123".ljust(SIZE, b"\0")


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


def test_overwriting_moves_no_position_but_wants_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    lambda file: file.address(5),
    lambda file: file.fill(b"more"),
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
    assert open_descriptors() == before + 1
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
