"""Users and policies in their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.access.accounts import Accounts, make_secret
from embermq.errors import IllegalField, SettingsError
from embermq.model.access import Pattern, Policy, User, parse_sources
from tests.unit.access.requests import an_entry


def test_what_was_saved_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "config" / "access.json"
    accounts = Accounts(path)
    assert accounts.users() == []
    user, boss = User("u", "s" * 8), User("ü boss", make_secret(), is_super=True, is_enabled=False)
    near = an_entry("Topic:pre* Pub|Sub", allows=False)
    near = type(near)(near.pattern, near.actions, near.allows, parse_sources(["10.0.0.1", "fe80::/10"]))
    policy = Policy(custom=(near, an_entry("Group:* All")), default=(an_entry("* Get"),))
    accounts.save_user(user, boss)
    accounts.save_policy("u", policy)

    again = Accounts(path)
    assert again.users() == [user, boss]
    assert again.policies() == {"u": policy}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["access.json"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_can_read_is_refused(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "access.json"
    Accounts(path).save_user(User("u", "s" * 8))
    path.chmod(mode)
    with pytest.raises(SettingsError, match="chmod 600"):
        Accounts(path)


def test_a_readable_file_left_behind_by_a_crash_does_not_make_the_new_one_readable(tmp_path: Path) -> None:
    path = tmp_path / "access.json"
    (tmp_path / "access.json.tmp").write_text("half")
    Accounts(path).save_user(User("u", "s" * 8))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "no JSON"),
        ("[]", "an object"),
        ('{"users":[{"username":"u","userType":"King"}]}', "neither Normal nor Super"),
        ('{"policies":[{"subject":"Group:g"}]}', "no user"),
        ('{"policies":[{"subject":"User:u","policies":[{"entries":[{"resource":"Queue:q"}]}]}]}', "none of"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_name(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "access.json"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(SettingsError, match=message) as refused:
        Accounts(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("user", [User("", "s" * 8), User("a\nb", "s" * 8), User(" a", "s" * 8), User("u", "short")])
def test_illegal_users_are_refused_and_nothing_is_changed(user: User, tmp_path: Path) -> None:
    accounts = Accounts(tmp_path / "access.json")
    with pytest.raises(IllegalField):
        accounts.save_user(user)
    assert len(accounts) == 0
    assert list(tmp_path.iterdir()) == []


def test_the_last_super_user_can_be_neither_deleted_nor_disabled(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path / "access.json")
    accounts.save_user(User("a", "s" * 8, is_super=True), User("b", "s" * 8))
    with pytest.raises(IllegalField, match="last super user"):
        accounts.delete_user("a")
    with pytest.raises(IllegalField, match="last super user"):
        accounts.save_user(User("a", "s" * 8, is_super=True, is_enabled=False))
    accounts.delete_user("b")
    assert [user.name for user in accounts.users()] == ["a"]


def test_entries_are_added_replaced_and_deleted_by_their_pattern(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path / "access.json")
    accounts.save_user(User("u", "s" * 8))
    accounts.add_policy("u", Policy(custom=(an_entry("Topic:a Pub"), an_entry("Topic:b Pub"))))
    accounts.add_policy("u", Policy(custom=(an_entry("Topic:a Sub"),)))
    assert accounts.policy("u").custom == (an_entry("Topic:b Pub"), an_entry("Topic:a Sub"))
    accounts.delete_entries("u", Pattern.parse("Topic:b"))
    assert accounts.policy("u").custom == (an_entry("Topic:a Sub"),)
    accounts.delete_entries("u", None)
    assert accounts.policies() == {}
    with pytest.raises(IllegalField, match="no user"):
        accounts.add_policy("nobody", Policy(custom=(an_entry("Topic:a Sub"),)))


def test_a_secret_is_not_in_what_is_printed(tmp_path: Path) -> None:
    user = User("u", make_secret())
    assert user.secret not in repr(user)
    assert make_secret() != user.secret
