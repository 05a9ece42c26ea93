"""What each rule of sql.lark becomes, and what RocketMQ refuses although its grammar allows it.

The parser calls the methods of `TreeBuilder`, named after the rules, with what stands in the rule: nodes, and tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from embermq.filters.sql_numbers import promote
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
)

DEEPEST: Final = 100  # levels of a tree; each is a call inside a call when a message is looked at
_INT_END: Final = 2**31
_LONG_END: Final = 2**63


class Token(Protocol):
    """A word of the text, as the parser gives it."""

    type: str
    value: str
    start_pos: int


Part: TypeAlias = Node | Token


class Misfit(Exception):
    """An expression that its grammar allows, and that makes no sense nevertheless."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


class TreeBuilder:
    """Makes nodes; keeps nothing. Its methods raise Misfit."""

    def selector(self, parts: Sequence[Part]) -> Node:
        return _condition(_nodes(parts)[0])

    def either(self, parts: Sequence[Part]) -> Node:
        terms = tuple(_condition(node) for node in _nodes(parts))
        return Either(terms, terms[0].at, _depth(*terms))

    def both(self, parts: Sequence[Part]) -> Node:
        terms = tuple(_condition(node) for node in _nodes(parts))
        return Both(terms, terms[0].at, _depth(*terms))

    def negation(self, parts: Sequence[Part]) -> Node:
        (token,), (operand,) = _tokens(parts), _nodes(parts)
        return _negate(_condition(operand), token.start_pos)

    def equal(self, parts: Sequence[Part]) -> Node:
        left, right = _nodes(parts)
        for operand in (left, right):
            if _is_null_literal(operand):
                raise Misfit(operand.at, "NULL is equal to nothing; use IS NULL or IS NOT NULL")
        if _is_truth_literal(left) and _is_literal(right) and right.kind is not Kind.TRUTH:
            raise Misfit(left.at, "TRUE and FALSE are compared with conditions and properties only")
        return Equal(left, right, left.at, _depth(left, right))

    def unequal(self, parts: Sequence[Part]) -> Node:
        node = self.equal(parts)
        return _negate(node, node.at)

    def is_null(self, parts: Sequence[Part]) -> Node:
        (operand,) = _nodes(parts)
        return IsNull(operand, operand.at, _depth(operand))

    def is_not_null(self, parts: Sequence[Part]) -> Node:
        node = self.is_null(parts)
        return _negate(node, node.at)

    def order(self, parts: Sequence[Part]) -> Node:
        (token,), (left, right) = _tokens(parts), _nodes(parts)
        return _order(token.value, left, right)

    def between(self, parts: Sequence[Part]) -> Node:
        value, low, high = _nodes(parts)
        is_negated = _is_negated(parts)
        if not is_negated:
            _check_bounds(low, high)
        below, above = ("<", ">") if is_negated else (">=", "<=")
        first, second = _order(below, value, low), _order(above, value, high)
        if isinstance(value, Nothing):  # both are unknown, so one is enough: its operand is not looked at twice
            return first
        combine = Either if is_negated else Both
        return combine((first, second), value.at, _depth(first, second))

    def member(self, parts: Sequence[Part]) -> Node:
        (operand,) = _nodes(parts)
        if not isinstance(operand, Property):
            raise Misfit(operand.at, "found no property before IN; expected the name of one")
        values = frozenset(_unquote(token.value) for token in _tokens(parts) if token.type == "TEXT")
        return Member(operand.name, values, _is_negated(parts), operand.at)

    def search(self, parts: Sequence[Part]) -> Node:
        (operand,), (*_, how, wanted) = _nodes(parts), _tokens(parts)
        return Search(how.type, operand, _unquote(wanted.value), _is_negated(parts), operand.at, _depth(operand))

    def minus(self, parts: Sequence[Part]) -> Node:
        (operand,) = _nodes(parts)
        if isinstance(operand, Constant) and operand.kind in NUMBERS:
            assert isinstance(operand.value, int | float)
            return Constant(operand.kind, -operand.value, operand.at, is_literal=False)
        return Nothing(operand, operand.at, _depth(operand))

    def text(self, parts: Sequence[Part]) -> Node:
        (token,) = _tokens(parts)
        return Constant(Kind.TEXT, _unquote(token.value), token.start_pos)

    def decimal(self, parts: Sequence[Part]) -> Node:
        (token,) = _tokens(parts)
        digits = token.value.rstrip("lL")
        value = int(digits) if len(digits) <= len(str(_LONG_END)) else _LONG_END
        if value >= _LONG_END:
            raise Misfit(token.start_pos, f"{digits[:40]} is too large; expected at most {_LONG_END - 1}")
        return Constant(Kind.INT if value < _INT_END else Kind.LONG, value, token.start_pos)

    def double(self, parts: Sequence[Part]) -> Node:
        (token,) = _tokens(parts)
        value = float(token.value)
        if not 0 < value < float("inf"):
            reason = "RocketMQ takes no 0.0, use 0" if value == 0 else "expected at most 1.7976931348623157E308"
            raise Misfit(token.start_pos, f"{token.value[:40]} is no number here: {reason}")
        return Constant(Kind.DOUBLE, value, token.start_pos)

    def true(self, parts: Sequence[Part]) -> Node:
        return Constant(Kind.TRUTH, True, _tokens(parts)[0].start_pos)

    def false(self, parts: Sequence[Part]) -> Node:
        return Constant(Kind.TRUTH, False, _tokens(parts)[0].start_pos)

    def null(self, parts: Sequence[Part]) -> Node:
        return Constant(Kind.NOTHING, None, _tokens(parts)[0].start_pos)

    def named(self, parts: Sequence[Part]) -> Node:
        (token,) = _tokens(parts)
        return Property(token.value, token.start_pos)


def _nodes(parts: Sequence[Part]) -> list[Node]:
    return [part for part in parts if isinstance(part, Node)]


def _tokens(parts: Sequence[Part]) -> list[Token]:
    return [part for part in parts if not isinstance(part, Node)]


def _is_negated(parts: Sequence[Part]) -> bool:
    return any(token.type == "NOT" for token in _tokens(parts))


def _unquote(literal: str) -> str:
    return literal[1:-1].replace("''", "'")


def _depth(*inner: Node) -> int:
    """The depth of a node around these."""
    depth = 1 + max(node.depth for node in inner)
    if depth > DEEPEST:
        raise Misfit(inner[0].at, f"more than {DEEPEST} levels of operators inside each other; divide the filter")
    return depth


def _negate(node: Node, at: int) -> Node:
    return Not(node, at, _depth(node))


def _is_literal(node: Node) -> bool:
    return isinstance(node, Constant) and node.is_literal


def _is_null_literal(node: Node) -> bool:
    return isinstance(node, Constant) and node.kind is Kind.NOTHING


def _is_truth_literal(node: Node) -> bool:
    return isinstance(node, Constant) and node.kind is Kind.TRUTH


def _condition(node: Node) -> Node:
    """A node where a condition must stand."""
    if isinstance(node, Property):
        return Truth(node.name, node.at)
    if node.kind is Kind.TRUTH or _is_null_literal(node):
        return node
    raise Misfit(node.at, "found a value, expected a condition: a comparison, a property, TRUE, FALSE or NULL")


def _order(symbol: str, left: Node, right: Node) -> Node:
    for operand in (left, right):
        if operand.kind is Kind.TRUTH or (_is_literal(operand) and operand.kind not in NUMBERS):
            raise Misfit(operand.at, f"what {symbol} compares must be a number or a property; use = or <> for the rest")
    return Order(symbol, left, right, left.at, _depth(left, right))


def _check_bounds(low: Node, high: Node) -> None:
    """Refuse bounds that no number is between. RocketMQ does not look at those with a sign."""
    if not (isinstance(low, Constant) and low.is_literal and isinstance(high, Constant) and high.is_literal):
        return
    if low.kind in NUMBERS and high.kind in NUMBERS:
        least, most = promote(low, high)
        if most < least:
            raise Misfit(low.at, f"BETWEEN {low.value} AND {high.value} is never true; expected the smaller first")
