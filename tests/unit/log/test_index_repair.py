"""Cutting an index back after a crash that left any part of what was not flushed.

A disk keeps what was flushed. Every block of 64 bytes that was written later may be there as
it was at any moment since.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.format.index_entry import ENTRY, HEADER, SLOT, IndexHeader, entry_at, slot_at
from embermq.log.index_file import IndexFile
from embermq.log.index_keys import keys_of
from embermq.log.key_index import KeyIndex
from embermq.log.placed import Placed
from embermq.model.hashing import key_hash
from embermq.model.properties import format_properties
from tests.builders import ManualClock, a_placed

TIME = 1_700_000_000_000
BLOCK = 64
Image = dict[str, bytes]


def a_record(position: int, *keys: str, time: int = TIME) -> Placed:
    properties = format_properties({"KEYS": " ".join(keys)} if keys else {"TAGS": "a"})
    return a_placed(position=position, store_time=time, properties=properties)


def loaded(folder: Path, *, slots: int, entries: int) -> KeyIndex:
    index = KeyIndex(folder, slots=slots, entries=entries, clock=ManualClock(TIME))
    index.load()
    return index


def image_of(folder: Path) -> Image:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def write_image(folder: Path, image: Image) -> None:
    for path in folder.iterdir():
        path.unlink()
    for name, data in image.items():
        (folder / name).write_bytes(data)


def torn(images: list[Image], random: Random) -> Image:
    """What a disk may hold when `images` are its possible contents, the first of them safe."""
    found: Image = {}
    for name, last in images[-1].items():
        # Of a file made since the flush, everything may be lost.
        states = [image.get(name, bytes(len(last))) for image in images]
        lost = random.random()  # how much of what was not flushed
        found[name] = b"".join(
            (states[0] if random.random() < lost else random.choice(states))[at : at + BLOCK]
            for at in range(0, len(last), BLOCK)
        )
    return found


def check_is_whole(folder: Path, records: list[Placed], *, slots: int, entries: int) -> None:
    """See that the index holds exactly `records`, and that no chain or count is off."""
    model: defaultdict[str, list[int]] = defaultdict(list)
    for record in records:
        for key in keys_of(record.properties):
            model[key].insert(0, record.position)
    index = loaded(folder, slots=slots, entries=entries)
    assert {key: list(index.iter_positions("orders", key)) for key in model} == model
    assert index.entry_count == sum(map(len, model.values()))
    keyed = [record.position for record in records if keys_of(record.properties)]
    assert index.end_position == (keyed[-1] if keyed else -1)
    for path in folder.iterdir():
        file = IndexFile.open(path, slots=slots, entries=entries)
        next_entry = file.header.next_entry
        heads = [file.read_slot(slot) for slot in range(slots)]
        assert file.header.used_slots == sum(map(bool, heads))
        assert max(heads) < next_entry
        for slot, head in enumerate(heads):
            newest = [n for n in range(1, next_entry) if file.read_entry(n).key_hash % slots == slot]
            assert head == max(newest, default=0)
        assert not any(path.read_bytes()[entry_at(slots, next_entry) :])
        file.close()
    index.close()


class Crash(NamedTuple):
    """What was put, how much of it was flushed, and what of the rest reached the disk."""

    slots: int
    entries: int
    keys: list[int]  # of each record
    flushed: int  # records
    back: int  # records that were flushed, but come behind the cut
    random: Random

    def run(self, folder: Path, base: int) -> tuple[list[Placed], int]:
        """Leave in `folder` what the crash leaves. Gives the records put, and how many are before the cut."""
        records = [
            a_record(
                base + 100 * number,
                *(f"key-{self.random.randrange(20)}" for _ in range(count)),
                time=TIME + 300 * number * self.random.randrange(2),
            )
            for number, count in enumerate(self.keys)
        ]
        flushed = min(self.flushed, len(records))
        index = loaded(folder, slots=self.slots, entries=self.entries)
        index.put(records[:flushed])
        images = [image_of(folder)]
        for at in range(flushed, len(records), 3):
            index.put(records[at : at + 3])
            images.append(image_of(folder))
        index.close()
        write_image(folder, torn(images, self.random))
        return records, max(flushed - self.back, 0)


CRASHES = st.builds(
    Crash,
    slots=st.integers(1, 60),
    entries=st.integers(4, 60),
    keys=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    flushed=st.integers(0, 40),
    back=st.integers(0, 5),
    random=st.integers(0, 2**32).map(Random),
)


@settings(max_examples=300)
@given(crash=CRASHES, base=st.sampled_from([100, 2**31 - 1_000, 2**33 + 100]))
def test_after_any_crash_a_cut_keeps_all_that_was_flushed_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, crash: Crash, base: int
) -> None:
    folder = tmp_path_factory.mktemp("index")
    records, cut = crash.run(folder, base)
    shape = {"slots": crash.slots, "entries": crash.entries}
    position = base + 100 * cut

    index = loaded(folder, **shape)
    index.cut(position)
    index.close()
    check_is_whole(folder, records[:cut], **shape)

    index = loaded(folder, **shape)
    index.cut(position)
    index.put(records[cut:])
    index.close()
    check_is_whole(folder, records, **shape)
    write_image(folder, {})


@settings(max_examples=300)
@given(crash=CRASHES, base=st.sampled_from([0, 2**32 - 1_950, 2**32 - 50]))
def test_where_a_torn_position_cannot_be_told_from_a_real_one_no_record_is_lost(
    tmp_path_factory: pytest.TempPathFactory, crash: Crash, base: int
) -> None:
    folder = tmp_path_factory.mktemp("index")
    records, cut = crash.run(folder, base)
    position = base + 100 * cut
    index = loaded(folder, slots=crash.slots, entries=crash.entries)
    index.cut(position)
    for key in (f"key-{number}" for number in range(20)):
        found = list(index.iter_positions("orders", key))
        wanted = [record.position for record in records[:cut] if key in keys_of(record.properties)]
        assert set(wanted) <= set(found)
        assert {at for at in set(found) - set(wanted) if at % 2**32 or at >= position} == set()
    index.destroy()


def test_a_cut_forgets_records_from_its_position_on(tmp_path: Path) -> None:
    index = loaded(tmp_path / "index", slots=3, entries=100)
    records = [a_record(100 * number, f"own-{number}", "shared") for number in range(20)]
    index.put(records)
    index.cut(701)
    index.close()
    check_is_whole(tmp_path / "index", records[:8], slots=3, entries=100)


@pytest.mark.parametrize(("position", "left"), [(700, 7), (701, 8), (1900, 19), (1901, 20), (1, 1), (0, 0)])
def test_the_record_at_the_cut_goes_and_the_one_before_stays(tmp_path: Path, position: int, left: int) -> None:
    index = loaded(tmp_path / "index", slots=3, entries=8)
    index.put([a_record(100 * number, "shared") for number in range(20)])
    index.cut(position)
    assert index.find("orders", "shared") == [100 * number for number in reversed(range(left))]
    assert index.file_count == -(-left // 7)


def test_files_behind_the_cut_are_deleted(tmp_path: Path) -> None:
    index = loaded(tmp_path, slots=3, entries=8)
    index.put([a_record(100 * number, "shared") for number in range(20)])
    assert index.file_count == 3
    index.cut(650)
    assert index.file_count == len(list(tmp_path.iterdir())) == 1
    index.cut(0)
    assert (index.file_count, list(tmp_path.iterdir()), index.end_position) == (0, [], -1)


def test_keys_of_a_record_cut_between_two_files_go_together(tmp_path: Path) -> None:
    index = loaded(tmp_path, slots=3, entries=8)
    index.put([a_record(0, *"abcde"), a_record(100, *"fghij"), a_record(200, "k")])
    assert index.file_count == 2
    index.cut(100)
    assert (index.file_count, index.entry_count, index.end_position) == (1, 5, 0)
    assert index.find("orders", "f") == index.find("orders", "j") == []


def test_the_times_of_the_header_are_those_of_the_last_entry_that_is_kept(tmp_path: Path) -> None:
    index = loaded(tmp_path, slots=3, entries=100)
    index.put([a_record(100 * number, "a", time=TIME + 1_500 * number) for number in range(10)])
    index.cut(400)
    (path,) = tmp_path.iterdir()
    header = IndexHeader._make(HEADER.unpack_from(path.read_bytes()))
    assert header == IndexHeader(TIME, TIME + 4_000, 0, 300, 1, 5)
    assert index.find("orders", "a", begin_ms=TIME + 4_000) == [300]


def test_a_cut_behind_the_newest_record_changes_no_byte(tmp_path: Path) -> None:
    index = loaded(tmp_path, slots=3, entries=8)
    index.put([a_record(100 * number, "shared", time=TIME + 1_234 * number) for number in range(20)])
    before = image_of(tmp_path)
    for _ in range(2):
        index.close()
        index.load()
        index.cut(1901)
        assert image_of(tmp_path) == before


def test_a_header_that_counts_too_few_or_too_many_does_not_matter(tmp_path: Path) -> None:
    index = loaded(tmp_path, slots=3, entries=60)
    records = [a_record(100 * number, f"own-{number % 7}") for number in range(40)]
    index.put(records)
    index.close()
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    header = HEADER.unpack_from(whole)
    for next_entry in (21, 22, 41, 60):
        path.write_bytes(HEADER.pack(*header[:5], next_entry) + whole[HEADER.size :])
        index.load()
        index.cut(2_000)
        index.close()
        check_is_whole(tmp_path, records[:20], slots=3, entries=60)


def test_entries_without_slots_and_slots_without_entries_are_repaired(tmp_path: Path) -> None:
    slots, entries = 16, 60
    index = loaded(tmp_path, slots=slots, entries=entries)
    records = [a_record(100 + 100 * number, f"own-{number % 9}") for number in range(40)]
    index.put(records[:20])
    (path,) = tmp_path.iterdir()
    flushed = path.read_bytes()
    index.put(records[20:])
    index.close()
    whole = path.read_bytes()
    middle = entry_at(slots, 0)
    for image in (flushed[:middle] + whole[middle:], whole[:middle] + flushed[middle:]):
        path.write_bytes(image)
        index.load()
        index.cut(2_100)
        index.close()
        check_is_whole(tmp_path, records[:20], slots=slots, entries=entries)


def test_an_entry_that_lost_its_second_half_does_not_end_a_chain_early(tmp_path: Path) -> None:
    # Its position has lost the low half, which makes it look as if it were before the cut.
    slots, cut = 1, 2**32 + 50
    index = loaded(tmp_path, slots=slots, entries=60)
    records = [a_record(2**32 - 100, "a"), a_record(2**32 - 50, "b"), a_record(cut, "c")]
    index.put(records)
    index.close()
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[entry_at(slots, 3) + 8 : entry_at(slots, 4)] = bytes(ENTRY.size - 8)
    path.write_bytes(data)
    index.load()
    index.cut(cut)
    index.close()
    check_is_whole(tmp_path, records[:2], slots=slots, entries=60)


def test_an_entry_that_lost_its_second_half_and_has_no_slot_is_not_kept(tmp_path: Path) -> None:
    slots = 1000
    index = loaded(tmp_path, slots=slots, entries=60)
    records = [a_record(0, "a", "b"), a_record(100, "c")]
    index.put(records)
    index.close()
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[entry_at(slots, 3) + 8 : entry_at(slots, 4)] = bytes(ENTRY.size - 8)
    at = slot_at(key_hash("orders", "c") % slots)
    data[at : at + SLOT.size] = bytes(SLOT.size)
    path.write_bytes(data)
    index.load()
    index.cut(100)
    index.close()
    check_is_whole(tmp_path, records[:1], slots=slots, entries=60)


def test_a_chain_that_leads_into_another_is_not_followed(tmp_path: Path) -> None:
    slots = 16
    index = loaded(tmp_path, slots=slots, entries=60)
    records = [a_record(100, "a"), a_record(200, "b"), a_record(300, "a")]
    assert key_hash("orders", "a") % slots != key_hash("orders", "b") % slots
    index.put(records)
    index.close()
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    ENTRY.pack_into(data, entry_at(slots, 3), key_hash("orders", "a"), 300, 0, 2)
    path.write_bytes(data)
    index.load()
    index.cut(300)
    index.close()
    check_is_whole(tmp_path, records[:2], slots=slots, entries=60)


def test_a_record_at_four_gibibytes_exactly_is_not_taken_for_a_torn_one(tmp_path: Path) -> None:
    index = loaded(tmp_path, slots=1000, entries=60)
    records = [a_record(2**32 - 100, "a"), a_record(2**32, "b"), a_record(2**32 + 100, "c")]
    index.put(records)
    index.cut(2**32 + 100)
    index.close()
    check_is_whole(tmp_path, records[:2], slots=1000, entries=60)


@pytest.mark.parametrize("number", [-1, 60, 2**31 - 1])
def test_a_slot_that_leads_out_of_the_file_is_repaired(tmp_path: Path, number: int) -> None:
    index = loaded(tmp_path, slots=5, entries=60)
    records = [a_record(100 * number, f"own-{number}") for number in range(1, 30)]
    index.put(records)
    index.close()
    (path,) = tmp_path.iterdir()
    at = slot_at(key_hash("orders", "own-3") % 5)
    data = path.read_bytes()
    path.write_bytes(data[:at] + SLOT.pack(number) + data[at + SLOT.size :])
    index.load()
    index.cut(3_000)
    index.close()
    check_is_whole(tmp_path, records, slots=5, entries=60)


@pytest.mark.parametrize("entries_are_lost", [False, True])
@pytest.mark.parametrize("kept", [69_000, 20_000])
def test_a_cut_repairs_few_slots_of_many_and_many_of_few(tmp_path: Path, entries_are_lost: bool, kept: int) -> None:
    slots, entries = 3_000, 70_000  # more than are looked at together
    index = loaded(tmp_path, slots=slots, entries=entries)
    records = [a_record(10 * number, f"own-{number}") for number in range(69_999)]
    index.put(records[:kept])
    (path,) = tmp_path.iterdir()
    flushed = path.read_bytes()
    index.put(records[kept:])
    index.close()
    if entries_are_lost:
        middle = entry_at(slots, 0)
        path.write_bytes(path.read_bytes()[:middle] + flushed[middle:])
    index.load()
    index.cut(10 * kept)
    index.close()
    assert path.read_bytes()[HEADER.size :] == flushed[HEADER.size :]
    assert HEADER.unpack_from(path.read_bytes()) == HEADER.unpack_from(flushed)
