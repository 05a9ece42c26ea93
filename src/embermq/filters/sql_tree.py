"""An SQL92 expression as a tree, made by sql_building.py.

    conditions     Both Either Not Truth Equal IsNull Order Member Search     TRUE, FALSE or unknown
    operands       Property Constant Nothing                                  a text, a number or nothing

TRUE, FALSE and NULL are constants, and conditions, too. A condition may be an operand: `(a > 5) = TRUE`.
The kind of every operand is known before any message is: properties are text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar, Final, TypeAlias


class Kind(Enum):
    """What the value of a node is, where there is one."""

    TEXT = auto()
    INT = auto()  # 32 bits
    LONG = auto()  # 64 bits
    DOUBLE = auto()
    TRUTH = auto()
    NOTHING = auto()  # never a value


NUMBERS: Final = frozenset({Kind.INT, Kind.LONG, Kind.DOUBLE})
Value: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Property:
    """The text of a property; nothing where the message has none."""

    name: str
    at: int
    kind: ClassVar = Kind.TEXT
    depth: ClassVar = 1


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal, or a number with a minus before it, which some checks tell apart."""

    kind: Kind
    value: Value
    at: int
    is_literal: bool = True
    depth: ClassVar = 1


@dataclass(frozen=True, slots=True)
class Nothing:
    """A minus before what is no number: the operand may fail, and has no value otherwise."""

    operand: Node
    at: int
    depth: int
    kind: ClassVar = Kind.NOTHING


@dataclass(frozen=True, slots=True)
class Truth:
    """A property where a condition is wanted: FALSE, whatever its text; unknown without it."""

    name: str
    at: int
    kind: ClassVar = Kind.TRUTH
    depth: ClassVar = 1


@dataclass(frozen=True, slots=True)
class Both:
    """AND of two or more, from left to right, up to the first that is FALSE."""

    terms: tuple[Node, ...]
    at: int
    depth: int
    kind: ClassVar = Kind.TRUTH


@dataclass(frozen=True, slots=True)
class Either:
    """OR of two or more, from left to right, up to the first that is TRUE."""

    terms: tuple[Node, ...]
    at: int
    depth: int
    kind: ClassVar = Kind.TRUTH


@dataclass(frozen=True, slots=True)
class Not:
    """TRUE for FALSE, FALSE for TRUE."""

    term: Node
    at: int
    depth: int
    kind: ClassVar = Kind.TRUTH


@dataclass(frozen=True, slots=True)
class Equal:
    """`=`: two that are nothing are equal, and who is right of it may be nothing, which is FALSE."""

    left: Node
    right: Node
    at: int
    depth: int
    kind: ClassVar = Kind.TRUTH


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether an operand is nothing, or a condition unknown."""

    operand: Node
    at: int
    depth: int
    kind: ClassVar = Kind.TRUTH


@dataclass(frozen=True, slots=True)
class Order:
    """`>`, `>=`, `<` or `<=` of numbers, or of texts that are numbers."""

    symbol: str
    left: Node
    right: Node
    at: int
    depth: int
    kind: ClassVar = Kind.TRUTH


@dataclass(frozen=True, slots=True)
class Member:
    """`IN`: whether a property is one of some texts."""

    name: str
    values: frozenset[str]
    is_negated: bool
    at: int
    kind: ClassVar = Kind.TRUTH
    depth: ClassVar = 1


@dataclass(frozen=True, slots=True)
class Search:
    """CONTAINS, STARTSWITH or ENDSWITH; never unknown, and FALSE without a text, negated or not."""

    how: str
    operand: Node
    wanted: str
    is_negated: bool
    at: int
    depth: int
    kind: ClassVar = Kind.TRUTH


Node: TypeAlias = Property | Constant | Nothing | Truth | Both | Either | Not | Equal | IsNull | Order | Member | Search


def names_of(node: Node) -> frozenset[str]:
    """The properties that a node looks at."""
    return frozenset(_iter_names(node))


def _iter_names(node: Node) -> Iterator[str]:
    match node:
        case Property(name=name) | Truth(name=name) | Member(name=name):
            yield name
        case Both(terms=terms) | Either(terms=terms):
            for term in terms:
                yield from _iter_names(term)
        case Equal(left=left, right=right) | Order(left=left, right=right):
            yield from _iter_names(left)
            yield from _iter_names(right)
        case Not(term=inner) | Nothing(operand=inner) | IsNull(operand=inner) | Search(operand=inner):
            yield from _iter_names(inner)
        case Constant():
            pass
