"""Damage that is not at the log's end: it costs the message it is in, and nothing around it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from embermq import Message
from embermq.errors import CorruptRecord
from tests.builders import a_store
from tests.crash.damage import COUNT, Stores, flip, iter_records, keys_found, make_stores, overwrite, survey, verify

BODY_AT = 88  # in a record with IPv4 hosts
OFFSET_AT = 20


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return make_stores(tmp_path_factory.mktemp("damage"))


@pytest.fixture
def path(memory_path: Path) -> Path:
    return memory_path / "store"


def record_of(path: Path, number: int) -> int:
    """The position of the record with this number."""
    return list(iter_records(path))[number][0]


def flip_record(path: Path, number: int, at: int, bit: int = 0) -> None:
    position = record_of(path, number)
    file = path / "commitlog" / f"{position // 65_536 * 65_536:020d}"
    flip(file, (position % 65_536 + at) * 8 + bit)


@pytest.mark.parametrize("state", ["stopped", "crashed"])
@pytest.mark.parametrize("lost", ["consumequeue", "consumequeue/orders/0", "index"])
def test_a_damaged_body_costs_one_message_even_when_queues_are_made_again(
    stores: Stores, path: Path, state: str, lost: str
) -> None:
    shutil.copytree(getattr(stores, state), path)
    flip_record(path, 10, BODY_AT)
    shutil.rmtree(path / lost)
    with a_store(path) as store:
        found = survey(store)
        assert (found.right, found.refused) == (COUNT - 1, 1)
        assert keys_found(store) == COUNT - 1
        assert not store.state().recovered.kept
    assert not verify(path).sound


@pytest.mark.parametrize("state", ["stopped", "crashed"])
@pytest.mark.parametrize("at", [0, 3, 4, 7, 35, 84, 87])  # size, magic, position, size of the body
def test_a_damaged_head_costs_one_message_when_queues_are_made_again(
    stores: Stores, path: Path, state: str, at: int
) -> None:
    shutil.copytree(getattr(stores, state), path)
    flip_record(path, 10, at)
    shutil.rmtree(path / "consumequeue")
    with a_store(path) as store:
        assert store.state().recovered.skipped == (record_of(stores.stopped, 10),)
        found = survey(store)
        assert found.right == COUNT - 1
        assert found.wrong_bodies == found.misplaced == 0
        assert not store.state().recovered.kept


def test_a_damaged_newest_message_is_refused_and_hides_no_other(stores: Stores, path: Path) -> None:
    shutil.copytree(stores.stopped, path)
    flip_record(path, COUNT - 1, BODY_AT)
    flip_record(path, 5, BODY_AT)
    with a_store(path) as store:
        found = survey(store)
        assert (found.right, found.refused) == (COUNT - 2, 2)


def test_a_topic_that_is_no_name_ends_the_log_instead_of_leading_out_of_the_directory(
    stores: Stores, path: Path
) -> None:
    shutil.copytree(stores.crashed, path)
    position, size = list(iter_records(path))[COUNT - 2]
    data = (path / "commitlog" / f"{position // 65_536 * 65_536:020d}").read_bytes()[position % 65_536 :][:size]
    at = data.rindex(b"\x06orders") + 1
    overwrite(path, position + at, b"../../")
    with a_store(path) as store:
        assert store.state().log_written == position
        assert survey(store).right == COUNT - 2
    assert sorted(each.name for each in path.parent.iterdir()) == ["store"]


def test_a_topic_that_is_no_name_leads_nowhere_when_queues_are_made_again(stores: Stores, path: Path) -> None:
    shutil.copytree(stores.stopped, path)
    position, size = list(iter_records(path))[10]
    data = (path / "commitlog" / f"{0:020d}").read_bytes()[position:][:size]
    overwrite(path, position + data.rindex(b"\x06orders") + 1, b"../../")
    shutil.rmtree(path / "consumequeue")
    with a_store(path) as store:
        assert survey(store).right == COUNT - 1
    assert sorted(each.name for each in path.parent.iterdir()) == ["store"]


@pytest.mark.parametrize("bit", [0, 1, 2])
def test_a_damaged_offset_behind_the_checkpoint_does_not_keep_the_store_from_opening(
    stores: Stores, path: Path, bit: int
) -> None:
    shutil.copytree(stores.crashed, path)
    flip_record(path, COUNT - 30, OFFSET_AT + 6, bit)  # some 256, 512 or 1024 too many
    with a_store(path) as store:
        assert survey(store).wrong_bodies == 0


def test_a_damaged_queue_entry_is_not_taken_for_an_expired_message(stores: Stores, path: Path) -> None:
    shutil.copytree(stores.stopped, path)
    flip(path / "consumequeue" / "orders" / "0" / f"{0:020d}", (20 * 30 + 3) * 8)  # the position of entry 30
    with a_store(path) as store:
        found = survey(store)
        assert found.right + found.refused == COUNT


def test_reading_goes_on_behind_a_damaged_queue_entry(stores: Stores, path: Path) -> None:
    shutil.copytree(stores.stopped, path)
    flip(path / "consumequeue" / "orders" / "0" / f"{0:020d}", (20 * 30 + 8) * 8 + 7)  # the sign of its size
    with a_store(path) as store:
        assert survey(store).stuck == 0


def test_a_message_of_another_queue_is_never_given_out(stores: Stores, path: Path) -> None:
    shutil.copytree(stores.stopped, path)
    queues = path / "consumequeue" / "orders"
    (queues / "0").rename(path / "between")
    (queues / "1").rename(queues / "0")
    (path / "between").rename(queues / "1")
    with a_store(path) as store:
        assert survey(store).misplaced == 0


def test_a_query_passes_over_a_message_whose_properties_are_damaged(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        for number in range(3):
            store.put(Message("orders", b"%d" % number, keys=["k"], properties={"price": "100"}, queue=0))
    file = tmp_path / "store" / "commitlog" / f"{0:020d}"
    flip(file, file.read_bytes().index(b"100") * 8 + 7)  # no UTF-8 any more
    with a_store(tmp_path / "store") as store:
        assert [message.body for message in store.query("orders", "k")] == [b"1", b"2"]


def test_a_damaged_index_header_is_made_again(stores: Stores, path: Path) -> None:
    shutil.copytree(stores.stopped, path)
    flip(sorted((path / "index").iterdir())[0], 36 * 8 + 6)  # how many entries there are
    with a_store(path) as store:
        assert survey(store).is_whole and keys_found(store) == COUNT


def test_with_a_property_checksum_damage_anywhere_is_found(tmp_path: Path) -> None:
    settings = {"property_crc": True, "verify_property_crc": True}
    with a_store(tmp_path / "store", **settings) as store:
        store.put(Message("orders", b"x", properties={"price": "100"}, queue=0))
    file = tmp_path / "store" / "commitlog" / f"{0:020d}"
    flip(file, file.read_bytes().index(b"100") * 8 + 3)
    with a_store(tmp_path / "store", **settings) as store, pytest.raises(CorruptRecord):
        store.get("orders", queue=0, offset=0)
