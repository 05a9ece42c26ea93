"""The parser in the package is the one that lark makes of the grammar."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.make_sql_parser import GRAMMAR, PARSER

ROOT = Path(__file__).parents[3]
STEP = "python -m tests.make_sql_parser"


def test_the_documented_step_makes_the_same_file_again() -> None:
    assert f"PYTHONHASHSEED=0 {STEP}" in GRAMMAR.read_text()
    code = "from tests.make_sql_parser import make_parser; print(end=make_parser())"
    made = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(["src", "."])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert made == PARSER.read_text(), "make it again, as sql.lark says"


def test_it_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; from embermq.filters import parse_filter\n"
        "assert parse_filter('a > 5').matches({'a': '6'})\n"
        "print(sorted(name for name in ('lark', 'pyarrow', 'numpy', 'pyspark', 'numba') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
