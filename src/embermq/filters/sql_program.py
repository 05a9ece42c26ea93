"""A tree becomes a function of one message, made once: of what kind the operands are is known before.

The function takes a message's `get` for properties and gives True, False, or None for unknown. It raises
NotComparable where RocketMQ's filter fails.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import inf, isnan
from typing import Any, Final, TypeAlias

from embermq.filters.sql_numbers import PARSERS, NotComparable, double_rank, parse_double, promote
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

Get: TypeAlias = Callable[[str], str | None]
Program: TypeAlias = Callable[[Get], bool | None]
Operand: TypeAlias = Callable[[Get], Any]
Test: TypeAlias = Callable[[Any, Any], bool]

TESTS: Final[dict[str, Test]] = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def compile_tree(node: Node) -> Program:
    """The function of a condition."""
    match node:
        case Constant(value=value):
            assert value is None or isinstance(value, bool)
            return lambda get: value
        case Truth(name=name):
            return lambda get: None if get(name) is None else False
        case Both(terms=terms):
            return _both([compile_tree(term) for term in terms])
        case Either(terms=terms):
            return _either([compile_tree(term) for term in terms])
        case Not(term=term):
            return _negation(compile_tree(term))
        case Equal(left=left, right=right):
            return _equal(left, right)
        case IsNull(operand=operand):
            value_of = _operand(operand)
            return lambda get: value_of(get) is None
        case Order(symbol=symbol, left=left, right=right):
            return _order(TESTS[symbol], left, right)
        case Member(name=name, values=values, is_negated=is_negated):
            return _member(name, values, is_negated)
        case Search():
            return _search(node)
        case _:
            raise AssertionError(f"{node} is no condition")


def _operand(node: Node) -> Operand:
    match node:
        case Property(name=name):
            return lambda get: get(name)
        case Constant(value=value):
            return lambda get: value
        case Nothing(operand=operand):
            return _nothing(_operand(operand))
        case _:
            return compile_tree(node)


def _nothing(inner: Operand) -> Operand:
    def run(get: Get) -> None:
        inner(get)  # it may fail

    return run


def _both(terms: list[Program]) -> Program:
    def run(get: Get) -> bool | None:
        result: bool | None = True
        for term in terms:
            found = term(get)
            if found is False:
                return False
            if found is None:
                result = None
        return result

    return run


def _either(terms: list[Program]) -> Program:
    def run(get: Get) -> bool | None:
        result: bool | None = False
        for term in terms:
            found = term(get)
            if found:
                return True
            if found is None:
                result = None
        return result

    return run


def _negation(term: Program) -> Program:
    def run(get: Get) -> bool | None:
        found = term(get)
        return None if found is None else not found

    return run


def _equal(left: Node, right: Node) -> Program:
    test = _equality_test(left, right)
    if isinstance(left, Property) and isinstance(right, Constant):
        if right.kind in NUMBERS:
            return _number_test(left.name, PARSERS[right.kind], operator.eq, right.value)
        return _text_test(left.name, test, right.value)
    left_of, right_of = _operand(left), _operand(right)

    def run(get: Get) -> bool | None:
        one, other = left_of(get), right_of(get)
        if one is None:
            return True if other is None else None
        return False if other is None else test(one, other)

    return run


def _equality_test(left: Node, right: Node) -> Test:
    """How two values of these kinds are compared, if both are there."""
    if Kind.NOTHING in (left.kind, right.kind) or left.kind is right.kind:
        return operator.eq
    if left.kind in NUMBERS and right.kind in NUMBERS:
        return _constant_test(operator.eq, left, right)
    if left.kind is Kind.TEXT and right.kind in NUMBERS:
        parse = PARSERS[right.kind]
        return lambda text, number: parse(text) == number
    if left.kind in NUMBERS and right.kind is Kind.TEXT:
        parse = PARSERS[left.kind]
        return lambda number, text: parse(text) == number
    if left.kind is Kind.TEXT:
        return lambda text, truth: (text.lower() == "true") is truth
    if right.kind is Kind.TEXT:
        return _fail
    return lambda one, other: False  # a condition and a number


def _fail(one: object, other: object) -> bool:
    raise NotComparable("a condition cannot be compared with a text to the right of it")


def _constant_test(test: Test, left: Node, right: Node) -> Test:
    assert isinstance(left, Constant) and isinstance(right, Constant)
    answer = test(*promote(left, right))
    return lambda one, other: answer


def _text_test(name: str, test: Test, constant: object) -> Program:
    def run(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else test(text, constant)

    return run


def _number_test(name: str, parse: Callable[[str], float], test: Test, constant: object) -> Program:
    def run(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else test(parse(text), constant)

    return run


def _order(test: Test, left: Node, right: Node) -> Program:
    if isinstance(left, Property) and isinstance(right, Constant):
        return _number_test(left.name, _ranked(right.kind), test, right.value)
    test = _order_test(test, left, right)
    left_of, right_of = _operand(left), _operand(right)

    def run(get: Get) -> bool | None:
        one = left_of(get)
        if one is None:
            return None
        other = right_of(get)
        return None if other is None else test(one, other)

    return run


def _order_test(test: Test, left: Node, right: Node) -> Test:
    """How the order of two values of these kinds is tested, if both are there."""
    if Kind.NOTHING in (left.kind, right.kind):
        return test
    if left.kind in NUMBERS and right.kind in NUMBERS:
        return _constant_test(test, left, right)
    if left.kind is Kind.TEXT and right.kind is Kind.TEXT:
        return lambda one, other: test(double_rank(parse_double(one)), double_rank(parse_double(other)))
    if left.kind is Kind.TEXT:
        parse = _ranked(right.kind)
        return lambda text, number: test(parse(text), number)
    parse = _ranked(left.kind)
    return lambda number, text: test(number, parse(text))


def _ranked(kind: Kind) -> Callable[[str], float]:
    return _parse_ranked if kind is Kind.DOUBLE else PARSERS[kind]


def _parse_ranked(text: str) -> float:
    value = parse_double(text)
    return inf if isnan(value) else value  # NaN is above every constant: these are finite, and not zero


def _member(name: str, values: frozenset[str], is_negated: bool) -> Program:
    def run(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else (text in values) is not is_negated

    return run


def _search(node: Search) -> Program:
    if not node.wanted:
        return lambda get: False
    value_of, found_in = _operand(node.operand), _SEARCHES[node.how]
    wanted, is_negated = node.wanted, node.is_negated

    def run(get: Get) -> bool:
        text = value_of(get)
        return isinstance(text, str) and found_in(text, wanted) is not is_negated

    return run
