"""The users and their policies: read at start, saved whole with every change.

The file holds secrets as they are, because signatures are checked with them. Only its owner may read
it; one that others can read is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from embermq.errors import CorruptRecord, IllegalField, SettingsError
from embermq.files.durable import make_directory, replace_file
from embermq.format.access_json import decode_accounts, encode_accounts
from embermq.model.access import Pattern, Policy, User

FILE_NAME: Final = "access.json"
LEAST_SECRET: Final = 6  # characters, as RocketMQ has it
_MAX_NAME: Final = 128
_NO_POLICY: Final = Policy()


def make_secret() -> str:
    """A new secret that nobody can guess."""
    return secrets.token_urlsafe(24)


class Accounts:
    """Who there is, and what each may do. What a method changed is on disk when it returns."""

    def __init__(self, path: Path) -> None:
        """Those of the file at `path`; none if there is no such file. Raises SettingsError."""
        self._path = path
        self._users, self._policies = _read(path)

    def __len__(self) -> int:
        return len(self._users)

    def find(self, name: str) -> User | None:
        return self._users.get(name)

    def users(self) -> list[User]:
        return [self._users[name] for name in sorted(self._users)]

    def policy(self, name: str) -> Policy:
        """What the user may do; without entries, nothing."""
        return self._policies.get(name, _NO_POLICY)

    def policies(self) -> dict[str, Policy]:
        """The policies by the names of their users."""
        return dict(sorted(self._policies.items()))

    def save_user(self, *users: User) -> None:
        """Add users or change them. Raises IllegalField."""
        for user in users:
            check_user(user)
        changed = self._users | {user.name: user for user in users}
        self._keep_super_user(changed)
        self._save(changed, self._policies)

    def delete_user(self, name: str) -> None:
        """Forget a user with all its policies. Raises IllegalField if it is the last super user."""
        others = {user.name: user for user in self._users.values() if user.name != name}
        self._keep_super_user(others)
        self._save(others, {user: policy for user, policy in self._policies.items() if user != name})

    def save_policy(self, name: str, policy: Policy) -> None:
        """Let these entries be what decides about user `name`. Raises IllegalField."""
        if name not in self._users:
            raise IllegalField("subject", f"there is no user {name!r}; make it first")
        policies = {**self._policies, name: policy}
        if not policy.custom and not policy.default:
            del policies[name]
        self._save(self._users, policies)

    def add_policy(self, name: str, policy: Policy) -> None:
        """Add entries to those of user `name`; they replace those for the same pattern."""
        self.save_policy(name, self.policy(name).merged(policy))

    def delete_entries(self, name: str, pattern: Pattern | None) -> None:
        """Remove the entries with this pattern, or all."""
        present = self.policy(name)
        kept = [
            tuple(entry for entry in entries if pattern is not None and entry.pattern != pattern)
            for entries in (present.custom, present.default)
        ]
        self.save_policy(name, Policy(custom=kept[0], default=kept[1]))

    def add(self, users: Iterable[User], policies: dict[str, Policy]) -> None:
        """Add these users with these policies to those that are there: what an import brings."""
        added = {user.name: user for user in users}
        for user in added.values():
            check_user(user)
        self._save(self._users | added, self._policies | policies)

    def _keep_super_user(self, users: dict[str, User]) -> None:
        """Raise IllegalField if there would be nobody any more who can change users."""
        had, has = (any(user.is_super and user.is_enabled for user in each.values()) for each in (self._users, users))
        if had and not has:
            raise IllegalField("username", "this is the last super user; make another one first")

    def _save(self, users: dict[str, User], policies: dict[str, Policy]) -> None:
        make_directory(self._path.parent)
        replace_file(self._path, encode_accounts(users, policies), is_private=True)
        self._users, self._policies = users, policies


def check_user(user: User) -> None:
    """Raise IllegalField unless there may be such a user."""
    if not user.name or len(user.name) > _MAX_NAME or not user.name.isprintable() or user.name != user.name.strip():
        raise IllegalField("username", f"{user.name[:300]!r}: 1 to {_MAX_NAME} printable characters are expected")
    if len(user.secret) < LEAST_SECRET:
        raise IllegalField("password", f"{len(user.secret)} characters; {LEAST_SECRET} are the least")


def _read(path: Path) -> tuple[dict[str, User], dict[str, Policy]]:
    try:
        mode = path.stat().st_mode & 0o777
        data = path.read_bytes()
    except FileNotFoundError:
        return {}, {}
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}; it holds the users") from error
    if mode & 0o077:
        raise SettingsError(f"{path} holds secrets and others can read it (mode {mode:o}); run `chmod 600 {path}`")
    try:
        return decode_accounts(data)
    except (CorruptRecord, IllegalField) as error:
        raise SettingsError(f"{path} cannot be understood: {error}; correct it") from error
