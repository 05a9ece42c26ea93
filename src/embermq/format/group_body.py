"""Consumer groups on the wire: one, many, and all with their version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from embermq.errors import CorruptRecord
from embermq.format.group_json import group_members, read_group
from embermq.format.json_fields import parse_fields
from embermq.format.tables import GroupTable, decode_groups, version_members
from embermq.format.wire_json import encode_body
from embermq.model.group import GroupConfig
from embermq.model.version import DataVersion


class Readable(NamedTuple):
    """Whether a group may read a topic."""

    group: str
    topic: str
    is_readable: bool


def encode_group(group: GroupConfig) -> bytes:
    """The body of UPDATE_AND_CREATE_GROUP, and of the answer to GET_GROUP_CONFIG."""
    return encode_body(group_members(group))


def decode_group(body: bytes) -> GroupConfig:
    """Raises CorruptRecord."""
    return read_group("", parse_fields(body, "group").members)


def encode_group_configs(groups: Iterable[GroupConfig]) -> bytes:
    """The body of UPDATE_AND_CREATE_GROUP_LIST."""
    return encode_body({"groupConfigList": [group_members(group) for group in groups]})


def decode_group_configs(body: bytes) -> list[GroupConfig]:
    """Raises CorruptRecord."""
    values = parse_fields(body, "groups").find_list("groupConfigList")
    if values is None:
        raise CorruptRecord(0, "groups: groupConfigList is missing")
    return [read_group("", value) for value in values]


def encode_group_table(
    version: DataVersion, groups: Iterable[GroupConfig], *, forbidden: Mapping[str, Mapping[str, int]]
) -> bytes:
    """The body that answers GET_ALL_GROUP_CONFIG."""
    return encode_body(
        {
            "dataVersion": version_members(version),
            "forbiddenTable": forbidden,
            "subscriptionGroupTable": {group.name: group_members(group) for group in groups},
        }
    )


def decode_group_table(body: bytes) -> GroupTable:
    """Raises CorruptRecord."""
    return decode_groups(body)


def encode_readable(readable: Readable) -> bytes:
    """The body that answers UPDATE_AND_GET_GROUP_FORBIDDEN."""
    return encode_body({"group": readable.group, "readable": readable.is_readable, "topic": readable.topic})


def decode_readable(body: bytes) -> Readable:
    """Raises CorruptRecord."""
    fields = parse_fields(body, "readable")
    return Readable(fields.text("group", ""), fields.text("topic", ""), fields.boolean("readable", True))
