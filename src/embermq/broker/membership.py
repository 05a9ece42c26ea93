"""Who is connected: the producers, and the members of consumer groups.

Clients say who they are in heartbeats, every 30 seconds. They are gone when they sign off, when
their connection closes, or when nothing was heard of them for two minutes. Whenever members
of a group come or go, the others are told, so that they share the queues anew at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from embermq.broker.client_calls import notify_changed
from embermq.broker.consumer_group import Client, Conflict, ConsumerGroup
from embermq.broker.settings import BrokerSettings
from embermq.broker.topics import BrokerTopics
from embermq.clock import Clock
from embermq.errors import GroupNotFound, IllegalGroup, IllegalTopic
from embermq.format.command import Command
from embermq.format.heartbeat_body import Consumes, Heartbeat
from embermq.model.group import GroupConfig
from embermq.model.subscription import Subscribed
from embermq.model.topic import RETRY_PREFIX
from embermq.rpc.peer import Peer
from embermq.store.groups import Groups

log = logging.getLogger(__name__)

MOST_REQUESTERS: Final = 1024  # client ids that one connection may stand for
_UNIT_RETRY_FLAG: Final = 2


@dataclass(slots=True)
class _Joined:
    """What one connection stands for."""

    producers: set[str] = field(default_factory=set)  # groups
    consumers: set[str] = field(default_factory=set)  # groups
    client_ids: set[str] = field(default_factory=set)
    transactions: set[str] = field(default_factory=set)  # producer groups that it sent half messages for


class Membership:
    """Producers and consumers by group. All of it runs in the event loop."""

    def __init__(self, groups: Groups, topics: BrokerTopics, clock: Clock, settings: BrokerSettings) -> None:
        self.settings = settings  # replaced when one is changed at run time
        self._groups = groups
        self._topics = topics
        self._clock = clock
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Peer, Client]] = {}
        self._requesters: dict[str, Peer] = {}  # by client id: where replies go to
        self._half_senders: dict[str, dict[Peer, None]] = {}  # by producer group
        self._joined: dict[Peer, _Joined] = {}
        self._conflicts: dict[str, list[Conflict]] = {}  # as last logged
        self.note_subscriptions: Callable[[str, Sequence[Subscribed]], None] = lambda group, subscriptions: None
        self.note_gone: Callable[[str], None] = lambda group: None  # told of groups without members
        self.note_filter: Callable[[str], None] = lambda topic: None  # told of topics that a group reads otherwise now
        self._refused: set[str] = set()  # groups that were not let in, as logged

    def heartbeat(self, peer: Peer, request: Command, heartbeat: Heartbeat) -> bool:
        """Note who is there; tells whether the client must send its subscriptions.

        Nothing happens when the connection is closed already: the member would stay for two minutes.
        """
        if peer.is_closed:
            return False
        client = Client(peer, heartbeat.client_id, request.language, request.version, self._clock.monotonic())
        is_full_wanted = False
        for consumes in heartbeat.consumers:
            is_full_wanted |= self._take_consumer(client, consumes, heartbeat)
        for group in filter(None, heartbeat.producers):
            self._producers.setdefault(group, {})[peer] = client
            self._joined_by(peer).producers.add(group)
        if self._has_groups(peer):
            self._remember(heartbeat.client_id, peer)
        return is_full_wanted if heartbeat.fingerprint else True

    def unregister(self, peer: Peer, client_id: str, producer_group: str | None, consumer_group: str | None) -> None:
        """A client signs off from a group."""
        if producer_group:
            self._remove_producer(producer_group, peer)
        if consumer_group:
            self._remove_member(consumer_group, peer, reason="unregistered")
        if self._requesters.get(client_id) is peer and not self._has_groups(peer):
            del self._requesters[client_id]

    def forget(self, peer: Peer) -> None:
        """A connection was closed."""
        joined = self._joined.get(peer)
        if joined is None:
            return
        for group in list(joined.producers):
            self._remove_producer(group, peer)
        for group in list(joined.consumers):
            self._remove_member(group, peer, reason="closed")
        for group in joined.transactions:
            self._half_senders[group].pop(peer)
            if not self._half_senders[group]:
                del self._half_senders[group]
        for client_id in joined.client_ids:
            if self._requesters.get(client_id) is peer:
                del self._requesters[client_id]
        del self._joined[peer]

    def expire(self) -> None:
        """Forget those who were not heard of for too long, and close their connections."""
        oldest = self._clock.monotonic() - self.settings.client_timeout_ms / 1000
        alive = {client.peer for client in self._clients() if client.seen >= oldest}
        for peer, joined in list(self._joined.items()):
            if peer in alive:
                self._leave_silent_groups(peer, joined, oldest)
            elif joined.producers or joined.consumers:
                log.warning("client expired peer=%s silent_ms=%d", peer.peer, self.settings.client_timeout_ms)
                self.forget(peer)
                peer.close()

    def consumer_ids(self, group: str) -> list[str]:
        """The client ids of a group's members."""
        found = self._consumers.get(group)
        return found.client_ids() if found else []

    def consumer(self, group: str) -> ConsumerGroup | None:
        """The group, if any member is connected."""
        return self._consumers.get(group)

    def consumers(self) -> Iterator[ConsumerGroup]:
        """All groups that have a member."""
        yield from self._consumers.values()

    def find_subscription(self, group: str, topic: str) -> Subscribed | None:
        """What the group reads of a topic."""
        found = self._consumers.get(group)
        return found.subscriptions.get(topic) if found else None

    def subscribers(self, topic: str) -> list[str]:
        """The groups with members that read a topic."""
        return [group.name for group in self._consumers.values() if topic in group.subscriptions]

    def producers(self, group: str) -> list[Client]:
        """Who sends for a group."""
        return list(self._producers.get(group, {}).values())

    def note_half_sender(self, group: str, peer: Peer) -> None:
        """Remember who sent a half message: its heartbeat may come later than the question how it ended."""
        joined = self._joined_by(peer)
        if group not in joined.transactions and len(joined.transactions) < MOST_REQUESTERS:
            joined.transactions.add(group)
            self._half_senders.setdefault(group, {})[peer] = None

    def askable(self, group: str) -> list[Peer]:
        """Who may know how the transactions of a producer group ended."""
        found = [client.peer for client in self._producers.get(group, {}).values()]
        return found or list(self._half_senders.get(group, ()))

    def producer_groups(self) -> list[str]:
        return list(self._producers)

    def producer_peer(self, client_id: str) -> Peer | None:
        """The connection at which a client waits for replies."""
        peer = self._requesters.get(client_id)
        return None if peer is None or peer.is_closed else peer

    def note_requester(self, client_id: str, peer: Peer) -> None:
        """A client asks for a reply, which some do before their first heartbeat. Those known already stay known."""
        known = self._requesters.get(client_id)
        if known is peer or peer.is_closed:
            return
        if known is None or known.is_closed or not self._has_groups(known):
            self._remember(client_id, peer)

    def conflicts(self, group: str) -> list[Conflict]:
        """Where the members of a group want different messages: some will not get what they want."""
        found = self._consumers.get(group)
        return found.conflicts() if found else []

    def _take_consumer(self, client: Client, consumes: Consumes, heartbeat: Heartbeat) -> bool:
        config = self._admit(consumes.group, client)
        if config is None:
            return False
        if not heartbeat.omits_subscriptions:
            self._ensure_retry_topic(config, consumes)
            self.note_subscriptions(consumes.group, consumes.subscriptions)
        group = self._consumers.setdefault(consumes.group, ConsumerGroup(consumes.group))
        before = dict(group.subscriptions)
        is_changed, is_wish_changed = group.take(client, consumes, omits_subscriptions=heartbeat.omits_subscriptions)
        self._joined_by(client.peer).consumers.add(group.name)
        is_known = group.fingerprint in (None, heartbeat.fingerprint)
        group.fingerprint = heartbeat.fingerprint
        if is_changed:
            log.info("member group=%s client=%s peer=%s", group.name, client.client_id, client.peer.peer)
            self._notify(group)
        if is_wish_changed:
            self._report_conflicts(group)
            self._tell_of_filters(group, before)
        return not is_known or group.members[client.peer].subscriptions is None

    def _admit(self, name: str, client: Client) -> GroupConfig | None:
        """The group's settings; None, and a line in the log, if there is no such group and it cannot be made."""
        try:
            return self._groups.read(name)
        except (GroupNotFound, IllegalGroup) as error:
            # Not an error of the whole heartbeat: the client's other groups are well. Its pulls will be refused.
            if name not in self._refused and len(self._refused) < MOST_REQUESTERS:
                self._refused.add(name)
                log.warning("member refused client=%s reason=%s", client.client_id, error)
            return None

    def _ensure_retry_topic(self, config: GroupConfig, consumes: Consumes) -> None:
        if config.retry_queues <= 0:
            return
        order = any(self._is_ordered(subscribed.topic) for subscribed in consumes.subscriptions)
        sys_flag = _UNIT_RETRY_FLAG if consumes.is_unit else 0
        try:
            name = RETRY_PREFIX + config.name
            topic = self._topics.ensure(name, queues=config.retry_queues, order=order, sys_flag=sys_flag)
        except IllegalTopic as error:
            log.warning("no retry topic group=%s reason=%s", config.name, error)
            return
        if topic.order is not order:
            self._topics.save(replace(topic, order=order))

    def _is_ordered(self, topic: str) -> bool:
        found = None if topic.startswith(RETRY_PREFIX) else self._topics.find(topic)
        return found is not None and found.order

    def _leave_silent_groups(self, peer: Peer, joined: _Joined, oldest: float) -> None:
        """A client that is there, but has not told of some of its groups for too long, is no longer in those."""
        for group in list(joined.producers):
            if self._producers[group][peer].seen < oldest:
                self._remove_producer(group, peer)
        for group in list(joined.consumers):
            if self._consumers[group].members[peer].seen < oldest:
                self._remove_member(group, peer, reason="expired")

    def _remove_member(self, name: str, peer: Peer, *, reason: str) -> None:
        group = self._consumers.get(name)
        before = dict(group.subscriptions) if group else {}
        member = group.remove(peer) if group else None
        if group is None or member is None:
            return
        self._joined_by(peer).consumers.discard(name)
        log.info("member gone group=%s client=%s peer=%s reason=%s", name, member.client_id, peer.peer, reason)
        if not group.members:
            del self._consumers[name]
            self._conflicts.pop(name, None)
            self.note_gone(name)
            return
        self._notify(group)
        self._report_conflicts(group)
        self._tell_of_filters(group, before)

    def _tell_of_filters(self, group: ConsumerGroup, before: dict[str, Subscribed]) -> None:
        """Tell of topics of which a group wants something else than it wanted `before`."""
        for topic, subscribed in group.subscriptions.items() if before else ():
            if topic not in before or not subscribed.wants_same(before[topic]):
                self.note_filter(topic)

    def _remove_producer(self, group: str, peer: Peer) -> None:
        clients = self._producers.get(group, {})
        if clients.pop(peer, None) is not None:
            self._joined_by(peer).producers.discard(group)
        if not clients:
            self._producers.pop(group, None)

    def _notify(self, group: ConsumerGroup) -> None:
        config = self._groups.find(group.name)
        wants = self.settings.notify_members and (config is None or config.notifies_members)
        if wants and not group.is_broadcasting:
            notify_changed(list(group.members), group.name)

    def _report_conflicts(self, group: ConsumerGroup) -> None:
        conflicts = group.conflicts()
        if conflicts == self._conflicts.get(group.name, []):
            return
        for topic, wanted in conflicts:
            wishes = ", ".join(f"{wish} by {' '.join(ids)}" for wish, ids in wanted.items())
            log.warning("subscriptions differ group=%s topic=%s wanted=%s", group.name, topic, wishes)
        if conflicts:
            self._conflicts[group.name] = conflicts
        else:
            log.info("subscriptions agree again group=%s", group.name)
            del self._conflicts[group.name]

    def _remember(self, client_id: str, peer: Peer) -> None:
        ids = self._joined_by(peer).client_ids
        if client_id in ids or len(ids) < MOST_REQUESTERS:
            ids.add(client_id)
            self._requesters[client_id] = peer

    def _joined_by(self, peer: Peer) -> _Joined:
        joined = self._joined.get(peer)
        if joined is None:
            joined = self._joined[peer] = _Joined()
        return joined

    def _has_groups(self, peer: Peer) -> bool:
        """Whether a heartbeat told of this connection, and it did not sign off."""
        joined = self._joined.get(peer)
        return joined is not None and bool(joined.producers or joined.consumers)

    def _clients(self) -> Iterator[Client]:
        for clients in self._producers.values():
            yield from clients.values()
        for group in self._consumers.values():
            yield from group.members.values()
