"""Consumer groups: made, changed, forbidden, deleted, and still there after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.errors import DiskFailed, GroupNotFound, IllegalGroup
from embermq.format.tables import decode_groups
from embermq.model.group import PREDEFINED_GROUPS, GroupConfig
from embermq.store.groups import GROUPS_FILE, Groups
from tests.builders import ManualClock
from tests.conftest import Golden


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / GROUPS_FILE


def open_groups(path: Path, *, auto_create: bool = True) -> Groups:
    return Groups(path, clock=ManualClock(), auto_create=auto_create)


def test_an_unknown_group_is_made_by_its_first_use_and_stays(path: Path) -> None:
    assert open_groups(path).read("g") == GroupConfig("g")
    assert open_groups(path).find("g") == GroupConfig("g")


def test_without_auto_creation_an_unknown_group_is_refused_and_nothing_is_written(path: Path) -> None:
    groups = open_groups(path, auto_create=False)
    with pytest.raises(GroupNotFound, match="ember group create g"):
        groups.read("g")
    assert groups.find("g") is None
    assert not path.exists()


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "a.b", "gruppe-ä", "x" * 256])
def test_an_illegal_name_is_never_made(path: Path, name: str) -> None:
    groups = open_groups(path)
    with pytest.raises(IllegalGroup):
        groups.read(name)
    assert groups.find(name) is None


def test_every_broker_has_the_groups_of_the_tools(path: Path, golden: Golden) -> None:
    table = decode_groups((golden.store("batch") / "config" / GROUPS_FILE).read_bytes())
    assert set(PREDEFINED_GROUPS) == set(table.groups)
    assert dict(open_groups(path).table().groups) == table.groups


def test_settings_survive_a_restart_and_each_change_has_its_version(path: Path) -> None:
    groups = open_groups(path)
    groups.save(GroupConfig("g", max_retries=3, retry_queues=2), GroupConfig("h", may_consume=False))
    groups.save(GroupConfig("g", max_retries=4))
    again = open_groups(path)
    assert again.table() == groups.table()
    assert again.table().version.counter == 2
    assert again.find("g") == GroupConfig("g", max_retries=4)


def test_a_deleted_group_is_gone_with_what_was_forbidden_to_it(path: Path) -> None:
    groups = open_groups(path)
    groups.save(GroupConfig("g"))
    groups.set_forbidden("g", "orders", readable=False)
    groups.delete("g")
    again = open_groups(path, auto_create=False)
    assert again.find("g") is None
    assert not again.is_forbidden("g", "orders")
    with pytest.raises(GroupNotFound):
        again.delete("g")


def test_a_topic_is_forbidden_to_a_group_until_it_is_allowed_again(path: Path) -> None:
    groups = open_groups(path)
    groups.set_forbidden("g", "orders", readable=False)
    groups.set_forbidden("g", "bills", readable=False)
    again = open_groups(path)
    assert again.is_forbidden("g", "orders")
    assert not again.is_forbidden("h", "orders")
    again.set_forbidden("g", "orders", readable=True)
    assert not again.is_forbidden("g", "orders")
    assert again.is_forbidden("g", "bills")  # allowing one topic says nothing of the others
    again.set_forbidden("g", "bills", readable=True)
    assert open_groups(path).table().forbidden == {}


def test_allowing_what_is_allowed_changes_nothing(path: Path) -> None:
    groups = open_groups(path)
    groups.set_forbidden("g", "orders", readable=True)
    assert not path.exists()


@pytest.mark.parametrize("store", ["basic", "cq-ext", "pop", "v2-topic"])
def test_rocketmqs_table_is_written_back_byte_for_byte(golden: Golden, store: str) -> None:
    path = golden.store(store) / "config" / GROUPS_FILE
    before = path.read_bytes()
    table = decode_groups(before)
    groups = open_groups(path)
    groups.save(*table.groups.values())
    version = b'"counter":%d,\n\t\t"stateVersion":0,\n\t\t"timestamp":%d'
    old = version % (table.version.counter, table.version.timestamp)
    new = version % (groups.table().version.counter, groups.table().version.timestamp)
    assert path.read_bytes() == before.replace(old, new)


def test_a_table_that_cannot_be_written_stays_as_it_was(path: Path) -> None:
    groups = open_groups(path)
    groups.save(GroupConfig("g"))
    path.with_name(path.name + ".tmp").mkdir()
    with pytest.raises(DiskFailed):
        groups.save(GroupConfig("h"))
    assert groups.find("h") is None
    assert open_groups(path).find("g") is not None
