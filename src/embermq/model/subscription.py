"""Which messages a reader wants: tag expressions such as `eu || us`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from embermq.model.hashing import java_hash

_EVERYTHING = "*"
_LOW_WORD = 2**32
_SIGN = 2**31


@dataclass(frozen=True, slots=True)
class TagFilter:
    """A set of tags; an empty one means every message."""

    tags: frozenset[str]
    codes: frozenset[int]

    @classmethod
    def parse(cls, expression: str) -> Self:
        """`a || b` as a filter; `*` and nothing at all stand for every message."""
        tags = frozenset(tag.strip() for tag in expression.split("||") if tag.strip())
        if _EVERYTHING in tags:
            tags = frozenset()
        return cls(tags, frozenset(java_hash(tag) for tag in tags))

    def accepts_code(self, tags_code: int) -> bool:
        """Whether an entry with this tags code may belong to a wanted message."""
        return not self.codes or (tags_code + _SIGN) % _LOW_WORD - _SIGN in self.codes

    def accepts(self, tags: str | None) -> bool:
        """Whether a message with these tags is wanted."""
        return not self.tags or tags in self.tags
