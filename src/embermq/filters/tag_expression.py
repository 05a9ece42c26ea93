"""A filter by tags, `eu || us`, with the same methods as one in SQL92."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from embermq.errors import IllegalFilter
from embermq.model.properties import TAGS
from embermq.model.subscription import TagFilter, is_tag_expression

if TYPE_CHECKING:
    from embermq.filters.property_table import Mask, PropertyTable


@dataclass(frozen=True)
class TagExpression:
    """Messages with one of some tags, or all messages. Made by `parse_tags`; can be pickled."""

    text: str
    wanted: TagFilter = field(repr=False)

    @property
    def names(self) -> frozenset[str]:
        """The properties that it looks at: none, if every message is wanted."""
        return frozenset({TAGS} if self.wanted.tags else ())

    def evaluate(self, properties: Mapping[str, str]) -> bool:
        """Whether a message is wanted; with tags, this is never unknown."""
        return self.wanted.accepts(properties.get(TAGS))

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether a message is wanted."""
        return self.wanted.accepts(properties.get(TAGS))

    def mask(self, table: PropertyTable) -> Mask:
        """Whether each message of a batch is wanted. Needs pyarrow."""
        from embermq.filters.tag_columns import wanted_rows

        return wanted_rows(self.wanted, table)


def parse_tags(text: str) -> TagExpression:
    """The filter of a tag expression. Raises IllegalFilter."""
    if not is_tag_expression(text):
        raise IllegalFilter(f"{text[:200]!r} is no tag expression; expected words joined by ||, or *")
    return TagExpression(text, TagFilter.parse(text))
