"""What a broker keeps, as one value for the handlers that look at most of it."""

from __future__ import annotations

from dataclasses import dataclass

from embermq.broker.membership import Membership
from embermq.broker.topics import BrokerTopics
from embermq.store.groups import Groups
from embermq.store.offsets import ConsumerOffsets
from embermq.store.store import Store


@dataclass(frozen=True, slots=True)
class Tables:
    """Messages, topics, groups, how far groups are, and who is connected."""

    store: Store
    topics: BrokerTopics
    groups: Groups
    offsets: ConsumerOffsets
    membership: Membership
