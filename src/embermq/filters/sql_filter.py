"""An SQL92 filter: read once, then asked for messages, one by one or a batch of them at a time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from embermq.filters.sql_numbers import NotComparable
from embermq.filters.sql_program import compile_tree
from embermq.filters.sql_reading import parse_tree
from embermq.filters.sql_tree import names_of

if TYPE_CHECKING:
    from embermq.filters.property_table import Mask, PropertyTable

_KEPT: Final = 128  # filters that need not be read again


class SqlFilter:
    """`text`, and the properties that it looks at. Made by `parse_sql`; never changes, and can be pickled."""

    __slots__ = ("_program", "_tree", "names", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree = parse_tree(text)
        self._program = compile_tree(self._tree)
        self.names = names_of(self._tree)

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """What the expression is for a message: None if that is unknown, or its values cannot be compared."""
        try:
            return self._program(properties.get)
        except NotComparable:
            return None

    def evaluate_strictly(self, properties: Mapping[str, str]) -> bool | None:
        """The same; raises NotComparable, which says what could not be compared."""
        return self._program(properties.get)

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether a message is wanted: the expression must be true."""
        try:
            return self._program(properties.get) is True
        except NotComparable:
            return False

    def mask(self, table: PropertyTable) -> Mask:
        """Whether each message of a batch is wanted. Needs pyarrow."""
        from embermq.filters.sql_columns import true_rows

        return true_rows(self._tree, table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqlFilter) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"SqlFilter({self.text!r})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return parse_sql, (self.text,)


@lru_cache(_KEPT)
def parse_sql(text: str) -> SqlFilter:
    """The filter of an SQL92 expression. Raises IllegalFilter, which says where and what was expected."""
    return SqlFilter(text)
