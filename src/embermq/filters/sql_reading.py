"""An SQL92 text becomes a tree, or is refused with the place and what was expected there.

RocketMQ stops reading where an expression is complete and ignores the rest, so that `a + 1 = 6` means `a`, and
`a LIKE 'x'` too. Here the whole text must be one expression.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Final

from embermq.errors import IllegalFilter
from embermq.filters.sql_building import Misfit, TreeBuilder
from embermq.filters.sql_tree import Node

if TYPE_CHECKING:
    from embermq.filters.sql_parser import InteractiveParser, Lark

LONGEST: Final = 65_536  # characters
MOST_CONSTANTS: Final = 8_192

_END: Final = "$END"
_CONSTANTS: Final = frozenset({"TEXT", "DECIMAL", "DOUBLE"})
# How refusals name what may follow, in this order. Words that are not here are named as they are.
_WORDS: Final = {
    "PROPERTY": "a property",
    "DECIMAL": "a number",
    "DOUBLE": "a number",
    "TEXT": "a text in single quotes",
    "LPAR": "(",
    "MINUS": "-",
    "PLUS": "+",
    "EQUAL": "=",
    "UNEQUAL": "<>",
    "GREATER": ">",
    "AT_LEAST": ">=",
    "LESS": "<",
    "AT_MOST": "<=",
    "COMMA": ",",
    "RPAR": ")",
}
# What people write who know other dialects.
_HINTS: Final = {
    "!": "unequal is <>",
    '"': "texts stand in single quotes",
    "=": "equal is written once",
    "LIKE": "there is no LIKE; use CONTAINS, STARTSWITH or ENDSWITH",
    "+": "there is no arithmetic",
    "*": "there is no arithmetic",
    ".": "names hold letters, digits, _ and $ only",
    "&&": "use AND",
    "||": "use OR",
}


def parse_tree(text: str) -> Node:
    """The tree of an expression. Raises IllegalFilter."""
    _check_text(text)
    from embermq.filters.sql_parser import UnexpectedCharacters, UnexpectedToken

    course = _parser().parse_interactive(text)
    try:
        return _feed(course)
    except UnexpectedCharacters as error:
        raise _unexpected(text, error.pos_in_stream, course.accepts()) from None
    except UnexpectedToken as error:
        at = len(text) if error.token.type == _END else error.token.start_pos
        raise _unexpected(text, at, course.accepts()) from None
    except Misfit as misfit:
        raise _refusal(text, misfit.at, misfit.reason) from None


@cache
def _parser() -> Lark:
    from embermq.filters.sql_parser import Lark_StandAlone

    return Lark_StandAlone(transformer=TreeBuilder())


def _check_text(text: str) -> None:
    if len(text) > LONGEST:
        raise IllegalFilter(f"a filter of {len(text)} characters, limit {LONGEST}; divide it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _refusal(text, error.start, "half of a character, which no message holds") from error


def _feed(course: InteractiveParser) -> Node:
    constants = 0
    for token in course.iter_parse():
        constants += token.type in _CONSTANTS
        if constants > MOST_CONSTANTS:
            raise Misfit(token.start_pos, f"more than {MOST_CONSTANTS} constants; divide the filter")
    node: Node = course.feed_eof()
    return node


def _unexpected(text: str, at: int, accepted: set[str]) -> IllegalFilter:
    if at == len(text):
        return _refusal(text, at, f"the text ends here, expected {_one_of(accepted)}")
    if text[at] == "'" and "TEXT" in accepted:
        return _refusal(text, at, "the text that begins here has no end, expected another single quote")
    hints = [hint for word, hint in _HINTS.items() if text.upper().startswith(word, at)]
    return _refusal(text, at, "; ".join([f"found {_word_at(text, at)}, expected {_one_of(accepted)}", *hints]))


def _word_at(text: str, at: int) -> str:
    words = text[at : at + 40].split()
    return words[0] if words else repr(text[at])


def _one_of(names: Iterable[str]) -> str:
    accepted = set(names)
    keywords = sorted(accepted - _WORDS.keys() - {_END})
    words = [*(word for name, word in _WORDS.items() if name in accepted), *keywords]
    if _END in accepted:
        words.append("the end")
    *others, last = dict.fromkeys(words)
    return f"{', '.join(others)} or {last}" if others else last


def _refusal(text: str, at: int, reason: str) -> IllegalFilter:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    place = f"column {column}" if line == 1 else f"line {line}, column {column}"
    shown = text if len(text) <= 200 else f"{text[:200]}…"
    return IllegalFilter(f"filter {shown!r}, {place}: {reason}", at=at)
