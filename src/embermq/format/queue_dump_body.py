"""Entries of a queue, as QUERY_CONSUME_QUEUE shows them.

{"filterData":…,"maxQueueIndex":8,"minQueueIndex":0,
 "queueData":[{"eval":false,"physicOffset":0,"physicSize":265,"tagsCode":2598919}],"subscriptionData":{…}}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from embermq.format.heartbeat_body import subscribed_members
from embermq.format.wire_json import encode_body
from embermq.model.subscription import Subscribed


class ShownEntry(NamedTuple):
    """One entry, and whether the group that was asked about wants its message."""

    position: int
    size: int
    tags_code: int
    is_wanted: bool = False


def encode_queue_dump(
    entries: Sequence[ShownEntry],
    *,
    begin: int,
    end: int,
    subscribed: Subscribed | None = None,
    filter_text: str | None = None,
) -> bytes:
    """The body; [begin, end) are the offsets of the whole queue."""
    return encode_body(
        {
            "filterData": filter_text,
            "maxQueueIndex": end,
            "minQueueIndex": begin,
            "queueData": [_entry_members(entry) for entry in entries],
            "subscriptionData": None if subscribed is None else subscribed_members(subscribed),
        }
    )


def encode_subscription(group: str, topic: str, subscribed: Subscribed | None) -> bytes:
    """The body that answers QUERY_SUBSCRIPTION."""
    members = None if subscribed is None else subscribed_members(subscribed)
    return encode_body({"group": group, "subscriptionData": members, "topic": topic})


def encode_group_list(groups: Sequence[str]) -> bytes:
    """The body that answers QUERY_TOPIC_CONSUMERS."""
    return encode_body({"groupList": [*groups]})


def _entry_members(entry: ShownEntry) -> dict[str, object]:
    return {
        "eval": entry.is_wanted,
        "physicOffset": entry.position,
        "physicSize": entry.size,
        "tagsCode": entry.tags_code,
    }
