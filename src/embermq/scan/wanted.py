"""What is to be read of a store, as a value: it travels to whoever reads a split.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from embermq.model.topic import is_system_topic
from embermq.scan.columns import DEFAULT_COLUMNS


class OffsetRange(NamedTuple):
    """The messages [begin, end) of one queue; None: from the first, or to the last that there is when it is planned."""

    topic: str
    queue: int
    begin: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages, and what of them. With nothing said: all messages of users' topics, in the default columns."""

    topics: frozenset[str] | None = None  # by name; None: see `pattern`
    pattern: str | None = None  # a regular expression for whole names; None: every topic
    system_topics: bool = False  # those that belong to the system too; one that is named is read anyway
    ranges: tuple[OffsetRange, ...] | None = None  # these parts of queues; None: all queues, whole
    begin_time_ms: int | None = None  # by store time, [begin, end)
    end_time_ms: int | None = None
    filter_text: str | None = None  # a tag expression, or SQL92
    keys: frozenset[str] | None = None  # messages with one of these keys
    unique_keys: frozenset[str] | None = None  # messages with one of these unique keys
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    decode_body: bool = True  # unpack compressed bodies, and batches that are kept as one record
    broker_name: str | None = None  # what the column brokerName says: files do not know
    by_topic: bool = False  # each batch of one topic, if they are few: only then rows leave the order of the log
    skip_damaged: bool = False  # count and log damaged records instead of failing
    fail_on_loss: bool = True  # fail if something that was promised is gone; else count and log it

    def accepts_topic(self, topic: str) -> bool:
        """Whether messages of this topic may be among the wanted."""
        if self.topics is not None:
            return topic in self.topics
        if not self.system_topics and is_system_topic(topic):
            return False
        return self.pattern is None or _pattern(self.pattern)(topic) is not None


@lru_cache(maxsize=64)
def _pattern(text: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(text).fullmatch
