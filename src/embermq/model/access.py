"""Who may do what: users, the things they act on, and the policy entries that allow or deny it.

    entry      resource pattern   actions    from these addresses   allow or deny
               Topic:orders       Pub, Sub   10.0.0.0/8             Allow

Of all entries that fit, the closest pattern decides: the exact name, else the longest prefix, else
the whole kind (`Topic:*`), else `*`. Between equally close ones, a denial wins. Nothing fits: denied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple, Self

from embermq.errors import IllegalField

Network = IPv4Network | IPv6Network

_EXACT: Final = 1_000_000  # closer than any prefix
_MAX_NAME: Final = 255


class Kind(StrEnum):
    """What can be acted on."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"


class Action(StrEnum):
    """What can be done."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Resource(NamedTuple):
    """One topic, group or cluster; without a name, all of its kind."""

    kind: Kind
    name: str | None

    def __str__(self) -> str:
        return f"{self.kind}:{self.name or '*'}"


class Pattern(NamedTuple):
    """Which resources an entry is about."""

    kind: Kind | None  # None: of every kind
    name: str
    is_prefix: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """`*`, `Topic:*`, `Topic:pre*` or `Topic:name`. Raises IllegalField."""
        if text == "*":
            return cls(None, "", is_prefix=True)
        kind_text, colon, name = text.partition(":")
        kind = next((each for each in Kind if each.lower() == kind_text.strip().lower()), None)
        if not colon or kind is None:
            raise IllegalField("resource", f"{text[:300]!r} is none of *, Topic:…, Group:… and Cluster:…")
        stem = name.removesuffix("*")
        if not name or "*" in stem or len(name) > _MAX_NAME:
            raise IllegalField("resource", f"{text[:300]!r}: a name, the beginning of one and *, or * is expected")
        return cls(kind, stem, is_prefix=name.endswith("*"))

    def closeness(self, resource: Resource) -> int | None:
        """How close the pattern is to `resource`; None if it does not fit."""
        if self.kind is None:
            return 0
        if self.kind is not resource.kind:
            return None
        if not self.is_prefix:
            return _EXACT if self.name == resource.name else None
        return 1 + len(self.name) if (resource.name or "").startswith(self.name) else None

    def __str__(self) -> str:
        return "*" if self.kind is None else f"{self.kind}:{self.name}{'*' if self.is_prefix else ''}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a policy."""

    pattern: Pattern
    actions: frozenset[Action]
    allows: bool
    sources: tuple[Network, ...] = ()  # none: from anywhere

    def closeness(self, resource: Resource, action: Action, address: str) -> int | None:
        """How close the entry is to such a request; None if it is about others."""
        if action not in self.actions and Action.ALL not in self.actions:
            return None
        if self.sources and not _is_within(address, self.sources):
            return None
        return self.pattern.closeness(resource)


@dataclass(frozen=True, slots=True)
class Policy:
    """All entries of one user: the custom ones decide where one fits, else the default ones."""

    custom: tuple[Entry, ...] = ()
    default: tuple[Entry, ...] = ()

    def allows(self, resource: Resource, action: Action, address: str) -> bool:
        for entries in (self.custom, self.default):
            decision = _decide(entries, resource, action, address)
            if decision is not None:
                return decision
        return False

    def entries(self) -> tuple[Entry, ...]:
        return self.custom + self.default

    def merged(self, other: Policy) -> Policy:
        """With the entries of `other`, which replace those for the same pattern."""
        return Policy(_merge(self.custom, other.custom), _merge(self.default, other.default))


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who signs requests. The secret is the key of the signature, so it is kept as it is."""

    name: str
    secret: str = field(repr=False)
    is_super: bool = False
    is_enabled: bool = True


def parse_sources(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks (`10.0.0.1`, `10.0.0.0/8`). Raises IllegalField."""
    found = []
    for text in texts:
        try:
            found.append(ip_network(text.strip(), strict=False))
        except ValueError:
            raise IllegalField("sourceIps", f"{text[:80]!r} is no address and no network") from None
    return tuple(found)


def _merge(present: Iterable[Entry], added: tuple[Entry, ...]) -> tuple[Entry, ...]:
    patterns = {entry.pattern for entry in added}
    return (*(entry for entry in present if entry.pattern not in patterns), *added)


def _decide(entries: Iterable[Entry], resource: Resource, action: Action, address: str) -> bool | None:
    """Whether the closest entry allows it; None if no entry fits."""
    best: tuple[int, bool] | None = None  # how close, and whether it denies: the larger counts
    for entry in entries:
        closeness = entry.closeness(resource, action, address)
        if closeness is not None and (best is None or (closeness, not entry.allows) > best):
            best = (closeness, not entry.allows)
    return None if best is None else not best[1]


def _is_within(address: str, networks: Iterable[Network]) -> bool:
    found = _parse_address(address)
    return found is not None and any(found in network for network in networks)


@lru_cache(maxsize=1024)
def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None  # a connection that has no address any more: within nothing
