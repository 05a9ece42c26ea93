"""Extended entries: their addresses, the marks that close files, and the queue that refers to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.format.extended_entry import MAX_EXTENDED_SIZE, ExtendedEntry
from embermq.format.queue_entry import MAX_REAL, address_of, is_address, real_of
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.extended_queue import ExtendedQueue
from embermq.log.placed import Placed
from tests.builders import a_placed
from tests.unit.log.queue_builders import refuse_space

BITS = bytes(range(1, 9))
SIZE = 28  # of an entry with these bits
FILE_SIZE = 100  # three entries and the twelve bytes that are left
PER_FILE = 3
LOWEST = -(2**63)

Make = Callable[..., ExtendedQueue]
MakeBoth = Callable[..., ConsumeQueue]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[ExtendedQueue] = []

    def load(
        last: int | None = None,
        *,
        file_size: int = FILE_SIZE,
        read_only: bool = False,
    ) -> ExtendedQueue:
        queue = ExtendedQueue(tmp_path / "extended", file_size=file_size, read_only=read_only)
        made.append(queue)
        queue.load(last)
        return queue

    yield load
    for queue in made:
        queue.close()


def an_entry(number: int = 0, *, bits: bytes = BITS) -> ExtendedEntry:
    return ExtendedEntry(2598919 + number, 1700000000123 + number, bits)


def put(queue: ExtendedQueue, count: int) -> list[int]:
    addresses = []
    for number in range(count):
        address = queue.put(an_entry(number))
        assert address is not None
        addresses.append(address)
    return addresses


def place(number: int) -> int:
    """Where entry `number` of this size belongs."""
    return number // PER_FILE * FILE_SIZE + number % PER_FILE * SIZE


def content(queue: ExtendedQueue) -> list[bytes]:
    return [path.read_bytes() for path in sorted(queue.folder.iterdir())]


def test_entries_have_rocketmqs_bytes_and_addresses(make: Make) -> None:
    queue = make()
    assert put(queue, 2) == [LOWEST, LOWEST + SIZE]
    assert content(queue)[0][:SIZE].hex() == "001c000000000027a8070000018bcfe5687b0008" + BITS.hex()


def test_what_was_put_is_found_at_its_address(make: Make) -> None:
    queue = make()
    entries = [an_entry(number, bits=bytes(number)) for number in range(0, 60, 7)]
    addresses = [queue.put(entry) for entry in entries]
    for each in (queue, make(), make(read_only=True)):
        assert [each.get(address or 0) for address in addresses] == entries


@pytest.mark.parametrize("address", [0, 1, 2598919, -(2**31), LOWEST + SIZE, LOWEST + 100, -(2**31) - 1])
def test_an_address_that_is_none_finds_nothing(make: Make, address: int) -> None:
    queue = make()
    put(queue, 1)
    assert queue.get(address) is None


def test_an_address_between_entries_finds_nothing_or_a_checked_entry(make: Make) -> None:
    queue = make()
    put(queue, 3)
    assert queue.get(LOWEST + 1) is None


def test_a_mark_closes_a_file_that_has_no_room_for_the_next_entry(make: Make) -> None:
    queue = make()
    addresses = put(queue, 7)
    assert [real_of(address) for address in addresses] == [place(number) for number in range(7)]
    first, second, third = content(queue)
    assert first[84:] == second[84:] == b"\xff\xff" + bytes(14)
    assert third[SIZE:] == bytes(FILE_SIZE - SIZE)


@pytest.mark.parametrize(("left", "fits"), [(4, True), (3, False)])
def test_four_bytes_stay_free_behind_the_last_entry_of_a_file(make: Make, left: int, fits: bool) -> None:
    queue = make(file_size=2 * SIZE + left)
    put(queue, 1)
    assert queue.put(an_entry()) == address_of(SIZE if fits else 2 * SIZE + left)


def test_the_last_bytes_of_a_file_take_the_mark(make: Make) -> None:
    queue = make(file_size=2 * SIZE + 4)
    put(queue, 3)
    assert content(queue)[0].endswith(b"\xff\xff\0\0")


def test_an_entry_that_fits_nowhere_has_no_address(make: Make) -> None:
    queue = make()
    assert queue.put(an_entry(bits=bytes(FILE_SIZE - 4 - 20 + 1))) is None
    assert not queue.folder.exists()
    assert queue.put(an_entry(bits=bytes(FILE_SIZE - 4 - 20))) == LOWEST


def test_the_largest_entry_fits_and_a_larger_one_has_no_address(make: Make) -> None:
    queue = make(file_size=1 << 16)
    assert queue.put(an_entry(bits=bytes(MAX_EXTENDED_SIZE - 20 + 1))) is None
    address = queue.put(an_entry(bits=bytes(MAX_EXTENDED_SIZE - 20)))
    assert address is not None
    assert queue.get(address) == an_entry(bits=bytes(MAX_EXTENDED_SIZE - 20))


def test_there_are_no_addresses_beyond_the_largest(make: Make, tmp_path: Path) -> None:
    (tmp_path / "extended").mkdir()
    (tmp_path / "extended" / f"{MAX_REAL // FILE_SIZE * FILE_SIZE:020d}").write_bytes(bytes(FILE_SIZE))
    assert make().put(an_entry()) is None


def test_a_full_disk_means_no_address(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make()
    put(queue, 3)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        refuse_space(patch)
        assert queue.put(an_entry()) is None
    assert "No space left" in caplog.text
    assert queue.put(an_entry(3)) == address_of(place(3))


@pytest.mark.parametrize("count", range(8))
def test_the_end_is_found_again(make: Make, count: int) -> None:
    addresses = put(make(), count)
    end = real_of(addresses[-1]) + SIZE if count else 0
    for last in (None, addresses[-1] if addresses else None):
        again = make(last)
        assert (again.min_address, again.max_address) == (LOWEST, address_of(end))
    assert again.put(an_entry(count)) == address_of(place(count))


@pytest.mark.parametrize("kept", range(1, 8))
def test_what_the_queue_does_not_refer_to_is_dropped(make: Make, kept: int) -> None:
    queue = make()
    addresses = put(queue, 7)
    again = make(addresses[kept - 1])
    assert again.max_address == addresses[kept - 1] + SIZE
    assert [again.get(address) is not None for address in addresses] == [True] * kept + [False] * (7 - kept)
    assert b"".join(content(again))[place(kept - 1) + SIZE :].strip(b"\0") == b""


def test_a_cut_ends_behind_the_entry_at_the_address(make: Make) -> None:
    queue = make()
    addresses = put(queue, 7)
    queue.cut(addresses[3])
    assert queue.max_address == addresses[3] + SIZE
    assert queue.get(addresses[4]) is None
    assert queue.put(an_entry(4)) == addresses[4]


@pytest.mark.parametrize(
    ("last", "others_stay"), [(place(2), True), (FILE_SIZE - 1, True), (place(3), False), (999, False)]
)
def test_an_address_whose_entry_is_lost_is_not_given_again(make: Make, last: int, others_stay: bool) -> None:
    addresses = put(make(), 2)
    queue = make(address_of(last))
    address = queue.put(an_entry(9))
    assert address is not None
    assert address > address_of(last)
    for each in (queue, make(address)):
        assert each.get(address) == an_entry(9)
        assert each.get(address_of(last)) is None
        assert [each.get(known) is not None for known in addresses] == [others_stay] * 2


def test_a_cut_at_an_address_without_entry_changes_nothing(make: Make) -> None:
    queue = make()
    addresses = put(queue, 3)
    for address in (0, addresses[2] + SIZE, addresses[0] + 1):
        queue.cut(address)
    assert queue.max_address == addresses[2] + SIZE


@pytest.mark.parametrize(("real", "first"), [(99, 0), (100, 100), (150, 100), (199, 100), (200, 200)])
def test_files_before_an_address_go_but_never_the_last(make: Make, real: int, first: int) -> None:
    queue = make()
    put(queue, 8)
    assert queue.delete_before(address_of(real)) == first // FILE_SIZE
    assert queue.min_address == address_of(first)
    assert make().min_address == address_of(first)


def test_a_tags_code_deletes_nothing(make: Make) -> None:
    queue = make()
    put(queue, 8)
    assert queue.delete_before(2598919) == 0


def test_flush_sync_and_destroy(make: Make) -> None:
    queue = make()
    put(queue, 4)
    assert queue.is_dirty
    queue.flush()
    queue.sync()
    assert not queue.is_dirty
    queue.destroy()
    assert not queue.folder.exists()


@given(st.binary(min_size=FILE_SIZE, max_size=FILE_SIZE))
def test_any_bytes_can_be_loaded(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / f"{0:020d}").write_bytes(data)
    queue = ExtendedQueue(folder, file_size=FILE_SIZE)
    queue.load()
    address = queue.put(an_entry(bits=b""))
    assert address is not None
    assert queue.get(address) == an_entry(bits=b"")
    queue.close()


@pytest.fixture
def make_both(tmp_path: Path) -> Iterator[MakeBoth]:
    made: list[ConsumeQueue] = []

    def load(*, extended: bool = True, read_only: bool = False) -> ConsumeQueue:
        both = ExtendedQueue(tmp_path / "extended", file_size=FILE_SIZE, read_only=read_only)
        queue = ConsumeQueue(
            tmp_path / "queue",
            "orders",
            0,
            file_size=200,
            extended=both if extended else None,
            read_only=read_only,
        )
        made.append(queue)
        queue.load()
        return queue

    yield load
    for queue in made:
        queue.close()


def items(begin: int, end: int) -> list[Placed]:
    return [
        a_placed(offset, 100 * offset, tags_code=offset, store_time=1000 + offset, filter_bits=BITS)
        for offset in range(begin, end)
    ]


def places(queue: ConsumeQueue) -> list[int]:
    """Where the extended entries lie that a queue refers to."""
    return [real_of(entry.tags_code) for entry in queue.read(0, queue.max_offset)]


def extended_files(queue: ConsumeQueue) -> list[int]:
    return sorted(int(path.name) for path in (queue.folder.parent / "extended").iterdir())


def test_a_queue_keeps_addresses_and_shows_tags_codes(make_both: MakeBoth) -> None:
    queue = make_both()
    queue.put(items(0, 25))
    for each in (queue, make_both(), make_both(read_only=True)):
        assert [entry.tags_code for entry in each.read(0, 25)] == list(range(25))
        for offset in range(25):
            assert each.read_extended(offset) == ExtendedEntry(offset, 1000 + offset, BITS)
        assert each.read_extended(25) is each.read_extended(-1) is None
    plain = make_both(extended=False)
    assert places(plain) == [place(number) for number in range(25)]
    assert plain.read_extended(3) is None


def test_an_address_that_cannot_be_resolved_is_shown_as_it_is(make_both: MakeBoth) -> None:
    queue = make_both()
    queue.put(items(0, 7))
    for path in (queue.folder.parent / "extended").iterdir():
        path.unlink()
    again = make_both()
    assert all(is_address(entry.tags_code) for entry in again.read(0, 7))
    again.put(items(0, 8))  # what is there is equal but for what is lost, so it stays
    assert [is_address(entry.tags_code) for entry in again.read(0, 8)] == [True] * 7 + [False]
    assert again.read_extended(7) == ExtendedEntry(7, 1007, BITS)


def test_items_that_are_there_already_are_known_by_what_their_address_stands_for(make_both: MakeBoth) -> None:
    queue = make_both()
    queue.put(items(0, 7))
    queue.put(items(0, 9))
    assert places(make_both(extended=False)) == [place(number) for number in range(9)]
    queue.put([item._replace(tags_code=77) for item in items(5, 6)])
    assert [entry.tags_code for entry in queue.read(0, 9)] == [0, 1, 2, 3, 4, 77]


def test_a_plain_tags_code_is_kept_where_no_extended_entry_can_be(make_both: MakeBoth) -> None:
    queue = make_both()
    queue.put([a_placed(0, 0, tags_code=5, filter_bits=bytes(FILE_SIZE))])
    assert queue.read(0, 1)[0].tags_code == 5
    assert queue.read_extended(0) is None


def test_a_cut_reaches_the_extended_entries(make_both: MakeBoth) -> None:
    queue = make_both()
    queue.put(items(0, 9))
    queue.cut(400)
    assert extended_files(queue) == [0, 100]
    queue.put(items(4, 6))
    assert places(make_both(extended=False)) == [place(number) for number in range(6)]
    queue.cut(0)
    assert not (queue.folder.parent / "extended").exists()


def test_entries_that_a_crash_made_unreachable_are_dropped_by_a_load(make_both: MakeBoth) -> None:
    queue = make_both()
    queue.put(items(0, 9))
    with (queue.folder / f"{0:020d}").open("r+b") as file:
        file.seek(4 * 20)
        file.write(bytes(120))
    again = make_both()
    assert again.max_offset == 4
    assert extended_files(again) == [0, 100]
    again.put(items(4, 9))
    assert [entry.tags_code for entry in again.read(0, 9)] == list(range(9))


def test_extended_files_go_with_the_records_they_belong_to(make_both: MakeBoth) -> None:
    queue = make_both()
    queue.put(items(0, 25))
    queue.correct_min(700)
    assert extended_files(queue)[0] == 0
    queue.delete_before(700)
    assert extended_files(queue)[0] == 200
    assert queue.read_extended(7) == ExtendedEntry(7, 1007, BITS)


def test_both_are_flushed_synced_and_destroyed_together(make_both: MakeBoth) -> None:
    queue = make_both()
    queue.put(items(0, 5))
    queue.flush()
    assert not queue.is_dirty
    queue.sync()
    queue.destroy()
    assert not queue.folder.exists()
    assert not (queue.folder.parent / "extended").exists()
