"""Columns of text as numbers, by the rules of sql_numbers.py. Only loaded where pyarrow is.

Arrow reads numbers fast, but not as Java does. So it gets the texts that both read alike, which are nearly all, and
the rest is read one by one, each text once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from embermq.filters.flags import flags_of
from embermq.filters.sql_numbers import INT_RANGE, PARSERS, NotComparable
from embermq.filters.sql_tree import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What Arrow and Java read alike.
_PLAIN_DIGITS: Final = 18
_PLAIN_WHOLE: Final = rf"\A-?[0-9]{{1,{_PLAIN_DIGITS}}}\z"
_PLAIN_DOUBLE: Final = r"\A-?[0-9]{1,15}(\.[0-9]{1,15})?\z"
_SIGN_BIT: Final = 63


class Numbers(NamedTuple):
    """One number a row, and whether the text of the row is none. Rows without a text have any number."""

    values: NDArray[np.int64]  # doubles by their rank, see rank_doubles
    failed: NDArray[np.bool_]


def parse_column(column: pa.StringArray, kind: Kind) -> Numbers:
    """The numbers of a column of texts."""
    values: NDArray[Any] = np.zeros(len(column), np.float64 if kind is Kind.DOUBLE else np.int64)
    failed = np.zeros(len(column), np.bool_)
    plain = _plain_rows(column, kind)
    values[plain] = _cast(column if plain.all() else column.filter(pa.array(plain)), kind)
    if kind is Kind.INT:
        failed[(values < INT_RANGE[0]) | (values > INT_RANGE[1])] = True
    odd = np.flatnonzero(~plain & flags_of(column.is_valid()))
    if len(odd):
        values[odd], failed[odd] = _parse_odd(column.take(pa.array(odd)), kind, values.dtype)
    return Numbers(rank_doubles(values) if kind is Kind.DOUBLE else values, failed)


def rank_doubles(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers with the order of the doubles in Java: -0.0 before 0.0, and NaN, equal to itself, behind all."""
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return bits ^ ((bits >> _SIGN_BIT) & np.int64(2**_SIGN_BIT - 1))


def _plain_rows(column: pa.StringArray, kind: Kind) -> NDArray[np.bool_]:
    if kind is Kind.DOUBLE:
        return flags_of(pc.match_substring_regex(column, _PLAIN_DOUBLE))
    digits = pc.and_(pc.ascii_is_decimal(column), pc.less_equal(pc.binary_length(column), _PLAIN_DIGITS))
    if pc.all(digits).as_py() is False:
        return flags_of(pc.match_substring_regex(column, _PLAIN_WHOLE))
    return flags_of(digits)


def _cast(column: pa.StringArray, kind: Kind) -> NDArray[Any]:
    numbers: NDArray[Any] = column.cast(pa.float64() if kind is Kind.DOUBLE else pa.int64()).to_numpy()
    return numbers


def _parse_odd(column: pa.StringArray, kind: Kind, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    encoded = column.dictionary_encode()
    texts, which = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    values, failed = np.zeros(len(texts), dtype), np.zeros(len(texts), np.bool_)
    for index, text in enumerate(texts):
        try:
            values[index] = PARSERS[kind](text)
        except NotComparable:
            failed[index] = True
    return values[which], failed[which]
