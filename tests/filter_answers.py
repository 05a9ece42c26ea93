"""What our filters say, in the words of tests: True, False, None, "error", or why a text is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from embermq.errors import IllegalFilter
from embermq.filters import SqlFilter, parse_sql
from embermq.filters.sql_numbers import NotComparable
from embermq.filters.sql_reading import parse_tree


def our_answer(wanted: SqlFilter, message: Mapping[str, str]) -> Any:
    """What a filter is for one message."""
    try:
        return wanted.evaluate_strictly(message)
    except NotComparable:
        return "error"


def our_answers(text: str, messages: Sequence[Mapping[str, str]]) -> list[Any] | None:
    """What a filter is for each message; None if we refuse it."""
    try:
        wanted = parse_sql(text)
    except IllegalFilter:
        return None
    return [our_answer(wanted, message) for message in messages]


def our_batch_answers(text: str, messages: Sequence[Mapping[str, str]]) -> list[Any]:
    """The same, asked for all messages at once. Needs pyarrow."""
    from embermq.filters.property_table import PropertyTable
    from embermq.filters.sql_columns import FAILED, FALSE, TRUE, UNKNOWN, codes_of

    words = {int(FALSE): False, int(UNKNOWN): None, int(TRUE): True, int(FAILED): "error"}
    table = PropertyTable(len(messages), map_column(messages))
    return [words[code] for code in codes_of(parse_tree(text), table).tolist()]


def map_column(messages: Sequence[Mapping[str, str] | None]) -> Any:
    """Properties as a scan gives them."""
    import pyarrow as pa

    rows = [None if message is None else list(message.items()) for message in messages]
    return pa.array(rows, pa.map_(pa.string(), pa.string()))
