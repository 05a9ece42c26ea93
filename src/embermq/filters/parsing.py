"""One text, tags or SQL92: which of them it is.

Words joined by `||`, and `*`, are tags: `eu`, `eu || us`. A word has no blank, no quote, and none of `( ) = < > , |`.
Everything else is SQL92. One word alone is a tag, although it would be SQL92, too: `TRUE` stands for the tag TRUE, and
`(TRUE)` for the condition.
"""

from __future__ import annotations

from typing import TypeAlias

from embermq.errors import IllegalFilter
from embermq.filters.sql_filter import SqlFilter, parse_sql
from embermq.filters.tag_expression import TagExpression, parse_tags
from embermq.model.subscription import is_tag_expression

Filter: TypeAlias = TagExpression | SqlFilter


def parse_filter(text: str) -> Filter:
    """The filter of a tag expression or of an SQL92 expression. Raises IllegalFilter."""
    if not text.strip():
        raise IllegalFilter("an empty filter; leave it out, or use `*`, for every message")
    return parse_tags(text) if is_tag_expression(text) else parse_sql(text)
