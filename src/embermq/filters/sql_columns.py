"""A tree walked over the columns of a batch: the same answers as sql_program.py. Only loaded where pyarrow is.

A condition is a column of codes, ordered so that AND is the smaller and OR the larger:

    0 FALSE     1 UNKNOWN     2 TRUE     3 FAILED    where values cannot be compared

One that fails is only looked at where what stands left of it did not decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from embermq.filters.column_numbers import rank_doubles
from embermq.filters.flags import flags_of
from embermq.filters.property_table import Mask, PropertyTable
from embermq.filters.sql_numbers import NotComparable
from embermq.filters.sql_program import TESTS, compile_tree
from embermq.filters.sql_tree import (
    NUMBERS,
    Both,
    Constant,
    Either,
    Equal,
    IsNull,
    Kind,
    Member,
    Node,
    Not,
    Nothing,
    Order,
    Property,
    Search,
    Truth,
    names_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes: TypeAlias = NDArray[np.int8]
    Flags: TypeAlias = NDArray[np.bool_]

FALSE, UNKNOWN, TRUE, FAILED = np.int8(0), np.int8(1), np.int8(2), np.int8(3)
_NEGATED: Final = np.array([TRUE, UNKNOWN, FALSE, FAILED], np.int8)
_SEARCHES: Final = {
    "CONTAINS": pc.match_substring,
    "STARTSWITH": pc.starts_with,
    "ENDSWITH": pc.ends_with,
}


def true_rows(node: Node, table: PropertyTable) -> Mask:
    """Whether the condition is true for each message."""
    return pa.array(codes_of(node, table) == TRUE)


def codes_of(node: Node, table: PropertyTable) -> Codes:
    """What the condition is for each message."""
    if not names_of(node):
        return np.full(table.count, _code_without_properties(node), np.int8)
    match node:
        case Truth(name=name):
            return np.where(_missing(table.column(name)), UNKNOWN, FALSE)
        case Both(terms=terms):
            return _combine(terms, table, decided=FALSE)
        case Either(terms=terms):
            return _combine(terms, table, decided=TRUE)
        case Not(term=term):
            return _NEGATED[codes_of(term, table)]
        case Equal(left=left, right=right):
            return _equal(left, right, table)
        case IsNull(operand=operand):
            column = _operand(operand, table)
            return _coded(column.missing, failed=column.failed)
        case Order(symbol=symbol, left=left, right=right):
            return _order(symbol, left, right, table)
        case Member():
            return _member(node, table)
        case Search():
            return _search(node, table)
        case _:
            raise AssertionError(f"{node} is no condition")


def _code_without_properties(node: Node) -> np.int8:
    try:
        answer = compile_tree(node)(lambda name: None)
    except NotComparable:
        return FAILED
    return UNKNOWN if answer is None else TRUE if answer else FALSE


def _combine(terms: tuple[Node, ...], table: PropertyTable, *, decided: np.int8) -> Codes:
    """AND, which FALSE decides, or OR, which TRUE decides."""
    choose = np.minimum if decided == FALSE else np.maximum
    result = codes_of(terms[0], table)
    for term in terms[1:]:
        other = codes_of(term, table)
        failed = (result == FAILED) | ((other == FAILED) & (result != decided))
        result = np.where(result == decided, decided, choose(result, other))
        result[failed] = FAILED
    return result


@dataclass(frozen=True, slots=True)
class Operand:
    """A node of a comparison over a batch: where it has no value, and where it fails."""

    node: Node
    missing: Flags
    failed: Flags
    codes: Codes | None = None  # of a condition


def _operand(node: Node, table: PropertyTable) -> Operand:
    never = np.zeros(table.count, np.bool_)
    match node:
        case Property(name=name):
            return Operand(node, _missing(table.column(name)), never)
        case Constant(value=value):
            return Operand(node, ~never if value is None else never, never)
        case Nothing(operand=inner):
            return Operand(node, ~never, _operand(inner, table).failed)
        case _:
            codes = codes_of(node, table)
            return Operand(node, codes == UNKNOWN, codes == FAILED, codes)


def _equal(left: Node, right: Node, table: PropertyTable) -> Codes:
    one, other = _operand(left, table), _operand(right, table)
    same, failed = _same(one, other, table)
    result = _coded(same, failed=failed)
    result[other.missing] = FALSE
    result[one.missing] = np.where(other.missing[one.missing], TRUE, UNKNOWN)
    result[one.failed | other.failed] = FAILED
    return result


def _same(one: Operand, other: Operand, table: PropertyTable) -> tuple[Flags, Flags]:
    """Where two values are equal, and where that cannot be told, if both are there."""
    never = np.zeros(table.count, np.bool_)
    kinds = (one.node.kind, other.node.kind)
    match kinds:
        case (Kind.TEXT, Kind.TEXT):
            return flags_of(pc.equal(_texts(one.node, table), _texts(other.node, table))), never
        case (Kind.TEXT, Kind.TRUTH):
            truths = flags_of(pc.equal(pc.ascii_lower(_texts(one.node, table)), "true"))
            return truths == (_codes(other, table) == TRUE), never
        case (Kind.TRUTH, Kind.TRUTH):
            return _codes(one, table) == _codes(other, table), never
        case (Kind.TRUTH, Kind.TEXT):
            return never, ~never
    if Kind.TEXT in kinds and not NUMBERS.isdisjoint(kinds):
        left, right, failed = _numbers(one.node, other.node, table)
        return left == right, failed
    return never, never  # one is never there, or a condition meets a number


def _order(symbol: str, left: Node, right: Node, table: PropertyTable) -> Codes:
    one, other = _operand(left, table), _operand(right, table)
    if Kind.NOTHING in (left.kind, right.kind):
        result = np.full(table.count, UNKNOWN, np.int8)
    else:
        low, high, failed = _numbers(left, right, table)
        result = _coded(np.asarray(TESTS[symbol](low, high)), failed=failed)
    result[other.missing] = UNKNOWN
    result[other.failed] = FAILED
    result[one.missing] = UNKNOWN  # the right side is not even looked at
    result[one.failed] = FAILED
    return result


def _numbers(left: Node, right: Node, table: PropertyTable) -> tuple[NDArray[np.int64], NDArray[np.int64], Flags]:
    """Both sides as numbers that can be compared, and where one is none; at least one is a property."""
    kind = next((node.kind for node in (left, right) if node.kind in NUMBERS), Kind.DOUBLE)
    (one, failed), (other, failed_too) = (_numbers_of(node, kind, table) for node in (left, right))
    return one, other, failed | failed_too


def _numbers_of(node: Node, kind: Kind, table: PropertyTable) -> tuple[NDArray[np.int64], Flags]:
    if isinstance(node, Property):
        return table.numbers(node.name, kind)
    assert isinstance(node, Constant) and isinstance(node.value, int | float)
    if kind is Kind.DOUBLE:
        return rank_doubles(np.array([node.value], np.float64)), np.zeros(1, np.bool_)
    return np.array([node.value], np.int64), np.zeros(1, np.bool_)


def _member(node: Member, table: PropertyTable) -> Codes:
    column = table.column(node.name)
    found = flags_of(pc.is_in(column, value_set=pa.array(sorted(node.values), column.type)))
    result = _coded(found != node.is_negated)
    result[_missing(column)] = UNKNOWN
    return result


def _search(node: Search, table: PropertyTable) -> Codes:
    if not node.wanted:
        return np.full(table.count, FALSE, np.int8)
    column = _operand(node.operand, table)
    if not isinstance(node.operand, Property):
        return _coded(np.zeros(table.count, np.bool_), failed=column.failed)
    found = flags_of(_SEARCHES[node.how](table.column(node.operand.name), node.wanted))
    return _coded((found != node.is_negated) & ~column.missing)


def _texts(node: Node, table: PropertyTable) -> pa.Array | pa.Scalar:
    if isinstance(node, Property):
        return table.column(node.name)
    assert isinstance(node, Constant)
    return pa.scalar(node.value, pa.string())


def _codes(operand: Operand, table: PropertyTable) -> Codes:
    if operand.codes is None:  # TRUE or FALSE
        return np.full(table.count, _code_without_properties(operand.node), np.int8)
    return operand.codes


def _coded(true: Flags, *, failed: Flags | None = None) -> Codes:
    codes = np.where(true, TRUE, FALSE)
    if failed is not None:
        codes[failed] = FAILED
    return codes


def _missing(column: pa.Array) -> Flags:
    return flags_of(column.is_null())
