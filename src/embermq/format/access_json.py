"""Users and policies as JSON: the bodies of requests about them, and the file that keeps them.

user     {"password":…,"userStatus":"enable","userType":"Normal","username":…}
policies {"policies":[{"entries":[{"actions":[…],"decision":"Allow","resource":"Topic:t","sourceIps":[…]}],
          "policyType":"Custom"}],"subject":"User:u"}
file     {"policies":[policies, …],"users":[user, …]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from embermq.errors import IllegalField
from embermq.format.json_fields import Fields, parse_fields
from embermq.model.access import Action, Entry, Pattern, Policy, User, parse_sources

SUBJECT_PREFIX: Final = "User:"
_CUSTOM: Final = "Custom"
_DEFAULT: Final = "Default"
_SUPER: Final = "Super"
_NORMAL: Final = "Normal"
_STATUSES: Final = ("disable", "enable")
_DECISIONS: Final = ("Deny", "Allow")


def decode_user(members: Fields, *, name: str | None = None, present: User | None = None) -> User:
    """A user; what is missing stays as it is in `present`. Raises CorruptRecord or IllegalField."""
    present = present or User("", "")
    kind = members.text("userType", "") or (_SUPER if present.is_super else _NORMAL)
    status = members.text("userStatus", "") or _STATUSES[present.is_enabled]
    return User(
        name=name or members.text("username", present.name),
        secret=members.text("password", "") or present.secret,
        is_super=bool(_choose("userType", kind, (_NORMAL, _SUPER))),
        is_enabled=bool(_choose("userStatus", status, _STATUSES)),
    )


def user_members(user: User, *, with_secret: bool) -> dict[str, object]:
    """A user as a JSON object."""
    secret: dict[str, object] = {"password": user.secret} if with_secret else {}
    return {
        **secret,
        "userStatus": _STATUSES[user.is_enabled],
        "userType": _SUPER if user.is_super else _NORMAL,
        "username": user.name,
    }


def decode_policy(members: Fields) -> Policy:
    """The policies of one user. Raises CorruptRecord or IllegalField."""
    entries: dict[str, list[Entry]] = {_CUSTOM: [], _DEFAULT: []}
    for each in members.find_list("policies") or []:
        policy = Fields(each, "policies")
        kinds = (_CUSTOM, _DEFAULT)
        kind = kinds[_choose("policyType", policy.text("policyType", "") or _CUSTOM, kinds)]
        entries[kind] += [_decode_entry(Fields(entry, "entries")) for entry in policy.find_list("entries") or []]
    return Policy(custom=tuple(entries[_CUSTOM]), default=tuple(entries[_DEFAULT]))


def policy_members(name: str, policy: Policy) -> dict[str, object]:
    """The policies of user `name` as a JSON object."""
    kinds = ((_CUSTOM, policy.custom), (_DEFAULT, policy.default))
    return {
        "policies": [
            {"entries": [_entry_members(entry) for entry in entries], "policyType": kind}
            for kind, entries in kinds
            if entries
        ],
        "subject": SUBJECT_PREFIX + name,
    }


def parse_subject(text: str) -> str:
    """The user's name in `User:name`. Raises IllegalField."""
    name = text.removeprefix(SUBJECT_PREFIX)
    if not name or name == text:
        raise IllegalField("subject", f"{text[:300]!r} is no user; {SUBJECT_PREFIX}name is expected")
    return name


def decode_accounts(data: bytes) -> tuple[dict[str, User], dict[str, Policy]]:
    """The users and policies of the file, by user name. Raises CorruptRecord or IllegalField."""
    members = parse_fields(data, "access")
    users = [decode_user(Fields(each, "users")) for each in members.find_list("users") or []]
    policies = [Fields(each, "policies") for each in members.find_list("policies") or []]
    return (
        {user.name: user for user in users},
        {parse_subject(each.text("subject", "")): decode_policy(each) for each in policies},
    )


def encode_accounts(users: Mapping[str, User], policies: Mapping[str, Policy]) -> bytes:
    """The file, for people to read and change, too."""
    whole = {
        "policies": [policy_members(name, policies[name]) for name in sorted(policies)],
        "users": [user_members(users[name], with_secret=True) for name in sorted(users)],
    }
    return json.dumps(whole, indent=2, ensure_ascii=False).encode() + b"\n"


def parse_actions(texts: Iterable[object]) -> frozenset[Action]:
    """Actions by their names. Raises IllegalField."""
    by_name = {action.lower(): action for action in Action}
    found = set()
    for text in texts:
        action = by_name.get(str(text).strip().lower())
        if action is None:
            raise IllegalField("actions", f"{str(text)[:80]!r} is none of {', '.join(Action)}")
        found.add(action)
    if not found:
        raise IllegalField("actions", "there must be at least one")
    return frozenset(found)


def _decode_entry(members: Fields) -> Entry:
    decision = members.text("decision", "")
    return Entry(
        pattern=Pattern.parse(members.text("resource", "")),
        actions=parse_actions(members.find_list("actions") or []),
        allows=bool(_choose("decision", decision, _DECISIONS)),
        sources=parse_sources(str(source) for source in members.find_list("sourceIps") or []),
    )


def _entry_members(entry: Entry) -> dict[str, object]:
    sources = [str(source).removesuffix("/32").removesuffix("/128") for source in entry.sources]
    return {
        "actions": sorted(entry.actions),
        "decision": _DECISIONS[entry.allows],
        "resource": str(entry.pattern),
        **({"sourceIps": sources} if sources else {}),
    }


def _choose(field: str, text: str, choices: tuple[str, str]) -> int:
    """Which of two words it is, whatever their case."""
    for index, choice in enumerate(choices):
        if text.lower() == choice.lower():
            return index
    raise IllegalField(field, f"{text[:80]!r} is neither {choices[0]} nor {choices[1]}")
