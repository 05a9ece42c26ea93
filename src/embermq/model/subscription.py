"""Which messages a reader wants: tag expressions such as `eu || us`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from embermq.model.hashing import java_hash

TAG_TYPE: Final = "TAG"
SQL_TYPE: Final = "SQL92"

_EVERYTHING = "*"
_JOINT = "||"
_TAG: Final = re.compile(r"[^\s|'\"()=<>,]+")
_LOW_WORD = 2**32
_SIGN = 2**31


@dataclass(frozen=True, slots=True)
class TagFilter:
    """A set of tags; an empty one means every message."""

    tags: frozenset[str]
    codes: frozenset[int]

    @classmethod
    def parse(cls, expression: str) -> Self:
        """`a || b` as a filter; `*` alone and nothing at all stand for every message."""
        tags = frozenset(tag.strip() for tag in expression.split(_JOINT) if tag.strip())
        if tags == {_EVERYTHING}:
            tags = frozenset()
        return cls(tags, frozenset(java_hash(tag) for tag in tags))

    def accepts_code(self, tags_code: int) -> bool:
        """Whether an entry with this tags code may belong to a wanted message."""
        return not self.codes or (tags_code + _SIGN) % _LOW_WORD - _SIGN in self.codes

    def accepts(self, tags: str | None) -> bool:
        """Whether a message with these tags is wanted."""
        return not self.tags or tags in self.tags


def is_tag_expression(text: str) -> bool:
    """Whether a filter is one by tags: words joined by `||`, or `*`. All others are SQL92."""
    words = [word.strip() for word in text.split(_JOINT)]
    return any(words) and all(_TAG.fullmatch(word) for word in words if word)


@dataclass(frozen=True)
class Subscribed:
    """What a client says it reads of one topic."""

    topic: str
    expression: str = _EVERYTHING
    expression_type: str = TAG_TYPE
    tags: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()  # the hashes of the tags, as the client computed them
    version: int = 0  # grows with every change
    is_class_filter: bool = False

    @cached_property
    def filter(self) -> TagFilter:
        """The filter of a tag expression. Our own hashes count: those of some clients are not Java's."""
        return TagFilter.parse(self.expression)

    @property
    def is_tags(self) -> bool:
        return self.expression_type in ("", TAG_TYPE)

    def wants_same(self, other: Subscribed) -> bool:
        """Whether both want the same messages."""
        if self.is_tags and other.is_tags:
            return self.filter == other.filter
        return (self.expression_type, self.expression) == (other.expression_type, other.expression)
