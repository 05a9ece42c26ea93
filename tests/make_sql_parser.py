"""Makes the parser of SQL92 filters from their grammar, src/embermq/filters/sql.lark. After a change of it:

    PYTHONHASHSEED=0 python -m tests.make_sql_parser

This is lark's own generator of parsers that stand alone (`python -m lark.tools.standalone`). Its output depends on the
order of sets; with a fixed seed, and item sets ordered by what is in them, it is the same every time.
"""

from __future__ import annotations

import io
from pathlib import Path

from lark import Lark
from lark.parsers.lalr_analysis import LR0ItemSet
from lark.tools.standalone import gen_standalone

import embermq.filters

FILTERS = Path(embermq.filters.__file__).parent
GRAMMAR = FILTERS / "sql.lark"
PARSER = FILTERS / "sql_parser.py"


def make_parser() -> str:
    """The text of sql_parser.py."""
    LR0ItemSet.__hash__ = lambda self: hash(self.kernel)  # type: ignore[method-assign]
    grammar = Lark(GRAMMAR.read_text(), start="selector", parser="lalr", lexer="basic", maybe_placeholders=False)
    made = io.StringIO()
    gen_standalone(grammar, out=made)
    return made.getvalue()


if __name__ == "__main__":
    PARSER.write_text(make_parser())
