"""What a broker keeps, as one value for the handlers that look at most of it."""

from __future__ import annotations

from dataclasses import dataclass

from embermq.broker.membership import Membership
from embermq.broker.topics import BrokerTopics
from embermq.compaction.compacted_topics import CompactedTopics, is_compacted
from embermq.model.topic import TopicConfig
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
    compacted: CompactedTopics | None = None

    def kept_of(self, topic: TopicConfig | None) -> CompactedTopics | None:
        """Where the messages of a topic are, if it is compacted; None for all others, whose messages are in the log."""
        return self.compacted if is_compacted(topic) else None
