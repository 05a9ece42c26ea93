"""RocketMQ's `plain_acl.yml` (ACL 1.0) as users and policies.

    accounts:
    - accessKey: billing
      secretKey: 12345678
      admin: false
      defaultTopicPerm: DENY        what holds for topics that are not in the list
      topicPerms: [orders=PUB|SUB]
      groupPerms: [billing=SUB]

An account's own line for a topic is final there: what it does not give is denied, whatever the default. Addresses that
may do without a signature are not taken over: here, every request is signed. `notes` says so, and whatever else was
left out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from embermq.errors import CorruptRecord, SettingsError
from embermq.format.json_fields import Fields
from embermq.model.access import Action, Entry, Kind, Pattern, Policy, User

_GIVEN: Final = {
    "DENY": frozenset[Action](),
    "PUB": frozenset({Action.PUB}),
    "SUB": frozenset({Action.SUB, Action.GET}),
    "PUB|SUB": frozenset({Action.PUB, Action.SUB, Action.GET}),
    "SUB|PUB": frozenset({Action.PUB, Action.SUB, Action.GET}),
}
_EVERYTHING: Final = _GIVEN["PUB|SUB"]


class Imported(NamedTuple):
    """What a file says."""

    users: list[User]
    policies: dict[str, Policy]
    notes: list[str]  # what was left out, and why


def convert_plain_acl(document: object, *, where: str) -> Imported:
    """The users and policies of a parsed `plain_acl.yml`. Raises SettingsError that names the account."""
    imported = Imported([], {}, [])
    try:
        members = Fields(document, where)
        if members.find_list("globalWhiteRemoteAddresses"):
            imported.notes.append("globalWhiteRemoteAddresses: left out, requests from there must be signed, too")
        for each in members.find_list("accounts") or []:
            _add(imported, Fields(each, f"{where}: account"))
    except CorruptRecord as error:
        raise SettingsError(f"{error.reason}; correct it") from error
    if not imported.users:
        raise SettingsError(f"{where}: no accounts in it")
    return imported


def _add(imported: Imported, account: Fields) -> None:
    name = str(account.members.get("accessKey") or "")
    secret = str(account.members.get("secretKey") or "")  # YAML takes one of digits for a number
    if not name or not secret:
        raise SettingsError(f"account {name!r}: accessKey and secretKey must both be there")
    is_super = account.boolean("admin", default=False)
    imported.users.append(User(name, secret, is_super=is_super))
    if account.text("whiteRemoteAddress", ""):
        imported.notes.append(f"whiteRemoteAddress of {name!r}: left out, it must sign from there, too")
    if is_super:
        return
    entries = [*_entries(account, name, Kind.TOPIC), *_entries(account, name, Kind.GROUP)]
    if entries:
        imported.policies[name] = Policy(custom=tuple(entries))


def _entries(account: Fields, name: str, kind: Kind) -> list[Entry]:
    entries = []
    for line in account.find_list(f"{kind.lower()}Perms") or []:
        resource, equals, permission = str(line).partition("=")
        if not equals or not resource.strip() or "*" in resource:
            raise SettingsError(f"account {name!r}: {line!r} is no `name=permission`")
        entries += _own_line(Pattern(kind, resource.strip(), is_prefix=False), _given(permission, name))
    default = _given(account.text(f"default{kind}Perm", "DENY"), name)
    if default:
        entries.append(Entry(Pattern(kind, "", is_prefix=True), default, allows=True))
    return entries


def _own_line(pattern: Pattern, given: frozenset[Action]) -> list[Entry]:
    """What is given, and a denial of the rest, so that no default gives it."""
    both = (Entry(pattern, given, allows=True), Entry(pattern, _EVERYTHING - given, allows=False))
    return [entry for entry in both if entry.actions]


def _given(permission: str, name: str) -> frozenset[Action]:
    given = _GIVEN.get(permission.strip().replace(" ", "").upper())
    if given is None:
        raise SettingsError(f"account {name!r}: permission {permission!r} is none of {', '.join(_GIVEN)}")
    return given
