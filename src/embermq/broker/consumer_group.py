"""One consumer group as its members' heartbeats tell of it: who reads, and what.

Each member's own subscriptions are kept. What counts for the group is, for each topic, the
newest that any member told: a member that wants something else than the others would get theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from embermq.format.heartbeat_body import BROADCASTING, CLUSTERING, FROM_LAST, PUSH, Consumes
from embermq.model.subscription import Subscribed
from embermq.rpc.peer import Peer

_NOTHING: Final[Mapping[str, Subscribed]] = MappingProxyType({})


@dataclass(slots=True)
class Client:
    """Somebody who sends heartbeats, at one connection."""

    peer: Peer
    client_id: str
    language: str
    version: int
    seen: float  # by the clock that never jumps


@dataclass(slots=True)
class Member(Client):
    """One consumer of a group."""

    subscriptions: dict[str, Subscribed] | None = None  # by topic; None if it never told
    wants_since: dict[str, int] = field(default_factory=dict)  # by topic: the version that its change of filter had

    def has_replaced(self, topic: str, version: int) -> bool:
        """Whether the filter of this version is one that the member has given up since, or may be."""
        return 0 < version < self.wants_since.get(topic, 0)


class Conflict(NamedTuple):
    """Members of one group that want different messages of a topic."""

    topic: str
    wanted: dict[str, tuple[str, ...]]  # client ids by expression; "nothing" for those who do not read the topic


@dataclass(slots=True)
class ConsumerGroup:
    """The members of a group, what they read, and how."""

    name: str
    consume_type: str = PUSH
    message_model: str = CLUSTERING
    consume_from: str = FROM_LAST
    members: dict[Peer, Member] = field(default_factory=dict)
    subscriptions: dict[str, Subscribed] = field(default_factory=dict)
    fingerprint: int | None = None  # of the last heartbeat

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        """Each client once: one that has just come back may still have its old connection."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

    def find_member(self, client_id: str) -> Member | None:
        """The newest connection of a client."""
        found = [member for member in self.members.values() if member.client_id == client_id]
        return max(found, key=lambda member: member.seen) if found else None

    def take(self, client: Client, consumes: Consumes, *, omits_subscriptions: bool) -> tuple[bool, bool]:
        """Note a heartbeat; tells whether the members must share the queues anew, and whether wishes changed."""
        self.consume_type = consumes.consume_type
        self.message_model = consumes.message_model
        self.consume_from = consumes.consume_from
        is_known = client.peer in self.members
        known = self.members.get(client.peer) or self.find_member(client.client_id)  # at the connection that it had
        before = known.subscriptions if known else None
        if omits_subscriptions:
            told = before
        else:
            told = {subscribed.topic: subscribed for subscribed in consumes.subscriptions}
        wants_since = _versions_of_changes(known, told or {}) if known else {}
        self.members[client.peer] = Member(
            client.peer, client.client_id, client.language, client.version, client.seen, told, wants_since
        )
        is_new, is_gone = self._merge(told or {}, own=before or {}), self._drop_unwanted(told or {})
        return is_new or is_gone or not is_known, not is_known or not _want_same(before, told)

    def remove(self, peer: Peer) -> Member | None:
        """Forget a connection; returns who it was."""
        member = self.members.pop(peer, None)
        if member is not None:
            self.subscriptions = {}  # what only this one wanted is gone, too
            for other in self.members.values():
                self._merge(other.subscriptions or {})
        return member

    def conflicts(self) -> list[Conflict]:
        """Where the members do not agree, in the order of topics."""
        members = [member for member in self.members.values() if member.subscriptions is not None]
        topics = sorted({topic for member in members for topic in member.subscriptions or ()})
        return [conflict for topic in topics if (conflict := _find_conflict(topic, members)) is not None]

    def _merge(self, told: dict[str, Subscribed], *, own: Mapping[str, Subscribed] = _NOTHING) -> bool:
        """Take what is newer, or replaces the member's own; tells whether the group has a topic that it did not have.

        A version is the time by a client's clock, which may stand still or go back between two filters of one member.
        """
        is_new = False
        for topic, subscribed in told.items():
            found = self.subscriptions.get(topic)
            is_own = found == own.get(topic) and found != subscribed
            if found is None or is_own or subscribed.version > found.version:
                is_new |= found is None
                self.subscriptions[topic] = subscribed
        return is_new

    def _drop_unwanted(self, told: dict[str, Subscribed]) -> bool:
        """Forget topics that no member reads any more; tells whether there were any."""
        doubtful = self.subscriptions.keys() - told.keys()
        if not doubtful:
            return False
        unwanted = doubtful - {topic for member in self.members.values() for topic in member.subscriptions or ()}
        for topic in unwanted:
            del self.subscriptions[topic]
        return bool(unwanted)


def _want_same(before: dict[str, Subscribed] | None, after: dict[str, Subscribed] | None) -> bool:
    if before is None or after is None:
        return before is after
    return before.keys() == after.keys() and all(before[topic].wants_same(after[topic]) for topic in after)


def _versions_of_changes(known: Member, told: dict[str, Subscribed]) -> dict[str, int]:
    """By topic, the first version of the filter that a member tells of now, where it had another one before, or none.

    A filter has several versions, and a member need not tell all of them: RocketMQ's clients give it a new one whenever
    they share queues anew.
    """
    found: dict[str, int] = {}
    if known.subscriptions is None:
        return found
    for topic, subscribed in told.items():
        before = known.subscriptions.get(topic)
        if before is None or not before.wants_same(subscribed):
            found[topic] = subscribed.version
        elif topic in known.wants_since:  # no later than now: its clock may have gone back
            found[topic] = min(known.wants_since[topic], subscribed.version)
    return found


def _find_conflict(topic: str, members: list[Member]) -> Conflict | None:
    wishes: list[tuple[Subscribed | None, list[str]]] = []
    for member in members:
        wish = (member.subscriptions or {}).get(topic)
        for other, client_ids in wishes:
            if (wish is other) or (wish is not None and other is not None and wish.wants_same(other)):
                client_ids.append(member.client_id)
                break
        else:
            wishes.append((wish, [member.client_id]))
    if len(wishes) < 2:
        return None
    return Conflict(topic, {_describe(wish): tuple(sorted(set(client_ids))) for wish, client_ids in wishes})


def _describe(wish: Subscribed | None) -> str:
    if wish is None:
        return "nothing"
    return f'"{wish.expression}"' if wish.is_tags else f'{wish.expression_type} "{wish.expression}"'
