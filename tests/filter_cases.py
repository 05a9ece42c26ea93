"""Filters and messages for tests: a table that covers the grammar, and as many made by chance as one likes.

What the table's filters mean was asked of RocketMQ and is kept in unit/filters/rocketmq_answers.json;
`python -m tests.compat.filter_tool` asks again.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

ANSWERS = Path(__file__).parent / "unit" / "filters" / "rocketmq_answers.json"

MESSAGES = [
    {
        **{"i": "5", "f": "5.5", "fi": "5.0", "s": "abc", "t": "true", "neg": "-3", "big": "3000000000", "sp": " 5"},
        **{"q": "it's", "TAGS": "TagA", "$d_1": "x", "and_": "5", "u": "٣", "astral": "𝟓", "euro": "20 €"},
    },
    {"i": "-2147483648", "f": "NaN", "s": "ABC", "t": "TRUE", "big": "9223372036854775807", "sp": "5 ", "q": "''"},
    {"i": "2147483648", "f": "-0.0", "fi": "0.0", "s": "ab", "t": "yes", "neg": "+3", "sp": "0x1p3", "u": "5d"},
    {"i": "007", "f": "-Infinity", "fi": "1e400", "s": "c", "t": "false", "neg": "", "big": "9223372036854775808"},
    {},
]

# How words are read, then rule by rule: what each means for values of every kind, and what is refused there.
TEXTS = r"""
i = 5|I = 5|i=5|(i = 5)|((i) = (5))|\ti\n=\r5\f| i = 5 |i = 5 -- five\n|i = 5 --\r|-- x\r\ni = 5|i -- x\n = 5|i = 5 --|i = 5 -- x
i = /* five */ 5|i = 5 /**/|i = 5 /* * / **/|i = 5 /* x|i = 5 /*/|/* a */ i /* b */ = /* c */ 5 /* d */|i = --5|i = - -5|i = --5\n5
nOt i|i Is nUlL|tRuE|faLSE|NULL|i iN ('5')|s cONTAINS 'b'|NOTi = 5|and_ = 5|ANDi = 5|i = 5 ANDs = 'x'|i = 5 AND(s = 'abc')|iſ IS NULL|i İS NULL
i = 0|i = 05|i = 0L|i = 5l|i = 5LL|i = 5Lx|i = 5 L|i = 2147483647|i = 2147483648|i = -2147483648|i = 9223372036854775807
i = 9223372036854775808|i = -9223372036854775808|i = 99999999999999999999|i = 5.|i = .5|i = 5.e0|i = .5E1|i = 5e0|i = 5E+0|i = 5e-0|i = 5e|i = 5.5.5
i = 1e308|i = 1e309|i = 1e-400|i = 4.9e-324|i = 0.0|i = .0|i = -0.0|i = 00.5|i = 05.0|i = 5.0L|i = 5f|i = 0x5|i = 5d|i = 1_000|i = ５
q = 'it''s'|q = ''''''|q = '''|q = 'it's'|s = 'a\nb'|s = ''|s = '' ''|euro = '20 €'|s = 'äöü'|s = '𝟓'|s = "abc"|s = 'abc|s = abc'|'abc' = s|$d_1 = 'x'|$d_1 = x
a.b = 1|a-b = 1|i != 5|i == 5|i % 5|i * 5 = 25|i , 5|i ; 5|ä = 5|i = 5;|i = 5 !|i = 5 x !|i = #5|`i` = 5|i = ?
TRUE|FALSE|NOT TRUE|NOT NULL|NOT NOT i|NOT NOT TRUE|t|i|missing|NOT t|NOT missing|+i|+TRUE|-TRUE|-i|+'a'|1|'a'|5.5|-5|(i)|((TRUE))||()
i = 5 OR s = 'x'|i = 6 OR s = 'abc'|i = 6 OR missing = 1|missing = 1 OR i = 5|missing = 1 OR i = 6|i = 5 OR s > 3|s > 3 OR i = 5|i OR TRUE|1 OR TRUE|TRUE OR 'a'
i = 5 AND s = 'abc'|i = 6 AND s > 3|s > 3 AND i = 6|missing = 1 AND i = 6|missing = 1 AND i = 5|missing = 1 AND s > 3|i AND TRUE|TRUE AND 1|TRUE AND NULL|NULL OR TRUE
i = 5 OR i = 6 AND s = 'x'|(i = 5 OR i = 6) AND s = 'x'|missing OR FALSE OR TRUE|missing AND TRUE AND FALSE|FALSE OR FALSE OR missing|i = 5 AND i = 5 AND i = 5 AND s > 3
NOT i = 5|NOT (i = 5)|NOT i > 5|NOT (i > 5)|NOT s CONTAINS 'z'|NOT (s CONTAINS 'z')|NOT i IN ('5')|NOT (i IN ('5'))|NOT i BETWEEN 1 AND 9|NOT i IS NULL|NOT -i|NOT 5
i = '5'|i = 5L|i = 5.0|i = f|i = fi|fi = 5|fi = 5.0|s = s|s = 3|3 = s|s = 3.0|s <> 3|i <> 5|i <> 6|i <> '5'|missing = 5|missing <> 5|5 = missing|5 <> missing
missing = missing2|missing <> missing2|i = missing|missing = i|5 = 5|5 = 5.0|5 = 5L|5 = 6|9007199254740993 = 9007199254740992.0|'a' = 'a'|'5' = 5|5 = 'x'|'a' = 5|5 = '5'
t = TRUE|t = FALSE|t <> TRUE|TRUE = t|FALSE = t|TRUE = missing|missing = TRUE|TRUE = TRUE|TRUE <> FALSE|TRUE = 1|TRUE = 'a'|1 = TRUE|'true' = TRUE|TRUE = -1|-1 = TRUE|FALSE = (i = 5)
i = 5 = TRUE|i = 5 = FALSE|i = 5 = 5|(i = 5) = (s = 'abc')|(i = 5) = (missing = 1)|(missing = 1) = (i = 5)|(missing = 1) = (missing = 2)|(i = 5) = t|t = (i = 5)|(i = 5) = 'true'|'true' = (i = 5)
(s > 3) = TRUE|TRUE = (s > 3)|i = NULL|NULL = i|NULL = NULL|i <> NULL|-NULL = i|i = -NULL|i = -'5'|-i = missing|-i = 5|5 = -i|i = -(-5)|neg = -3|neg = - - -3|i = +5|i = -s
i IS NULL|i IS NOT NULL|missing IS NULL|missing IS NOT NULL|5 IS NULL|'a' IS NULL|TRUE IS NULL|NULL IS NULL|NULL IS NOT NULL|(i = 5) IS NULL|(missing = 5) IS NULL|(s > 3) IS NULL|-i IS NULL
i = 5 IS NULL|i IS NULL IS NULL|i IS NULL = TRUE|i IS TRUE|i IS|i IS NOT|i IS NOT 5|IS NULL|i IS NULL NULL
i > 4|i >= 5|i < 6|i <= 5|4 < i|5 <= i|6 > i|i > 4.0|i > 4L|f > 5|f > 5.0|f >= 5.5|f < 1e300|1e300 > f|f <= -1.5|big > 5|big > 2999999999|big > 3e9|sp > 4|sp > 4.0|neg < -2|neg < -2.5|u > 2|u > 2.0|astral > 2
i > f|i >= i|f >= f|f < fi|fi > f|f <= fi|i > s|s >= s|missing > i|i > missing|missing > s|missing > 5|5 > missing|5 > 4|5 > 4.5|5 > 5L|i > 3 > 2|TRUE > 1|1 > TRUE|i > NULL|NULL < i|s > 'a'|'a' < s|5 > 'x'|i > -i|-i > i|i > (s = 'a')
i > -NULL|missing > -(s > 3)|i > -(s > 3)|-(s > 3) > i|-(i = 5) > i|i > =5|i > > 5|i >|> 5|i >=|i <> |i < > 5|i > = 5|i => 5
i BETWEEN 1 AND 9|i BETWEEN 5 AND 5|i BETWEEN 6 AND 9|i BETWEEN 9 AND 1|i BETWEEN -1 AND -9|i BETWEEN 1.5 AND 9|i BETWEEN 9.5 AND 9|i BETWEEN 1 AND 3000000000|f BETWEEN 1 AND 9|f BETWEEN 1.0 AND 9
i BETWEEN '1' AND '9'|i BETWEEN NULL AND 9|i BETWEEN 1 AND NULL|i BETWEEN TRUE AND FALSE|i BETWEEN neg AND big|i BETWEEN missing AND 9|i BETWEEN 1 AND missing|i BETWEEN 6 AND missing|missing BETWEEN 1 AND 9
3 BETWEEN 1 AND 5|3 BETWEEN i AND 9|-i BETWEEN 1 AND 2|-(s > 3) BETWEEN 1 AND 2|-(i = 5) BETWEEN 1 AND 2|i BETWEEN -(s > 3) AND 9|i BETWEEN 6 AND -(s > 3)|(i = 5) BETWEEN 1 AND 2|i BETWEEN 1 AND 9 AND i = 5
i BETWEEN (1) AND (9)|i BETWEEN 1 OR 9|i BETWEEN 1|i BETWEEN 1 AND|i BETWEEN 1 AND 9 BETWEEN 1 AND 2|i BETWEEN s AND 9|i BETWEEN 6 AND s|s BETWEEN 1 AND 2
i NOT BETWEEN 1 AND 4|i NOT BETWEEN 9 AND 1|i NOT BETWEEN 1 AND 9|i NOT BETWEEN missing AND 4|i NOT BETWEEN missing AND 9|missing NOT BETWEEN 1 AND 2|i NOT BETWEEN 6 AND s|i NOT BETWEEN 4 AND s|-i NOT BETWEEN 1 AND 2|i NOT BETWEEN '1' AND 2
i IN ('5')|i IN ('4','5')|i IN ('4' , '5' )|i IN ('1','2','3','4','5','6')|s IN ('ABC')|q IN ('it''s')|missing IN ('5')|i IN ('')|i IN (5)|i IN ()|i IN ('5',)|i IN ('5' '6')|i IN '5'|i IN (i)|i IN (NULL)
'a' IN ('a')|5 IN ('5')|(i) IN ('5')|+i IN ('5')|-i IN ('5')|(i = 5) IN ('5')|i IN ('5') IN ('5')|i NOT IN ('5')|i NOT IN ('6')|missing NOT IN ('5')|i NOT IN (5)|i IN ('5') = TRUE|TRUE IN ('5')
s CONTAINS 'b'|s CONTAINS 'abc'|s CONTAINS 'B'|s CONTAINS ''|missing CONTAINS 'b'|5 CONTAINS '5'|'abc' CONTAINS 'b'|TRUE CONTAINS 'b'|(i = 5) CONTAINS 'b'|(s > 3) CONTAINS 'b'|(s > 3) CONTAINS ''|-i CONTAINS 'b'|NULL CONTAINS 'b'
s NOT CONTAINS 'b'|s NOT CONTAINS 'z'|s NOT CONTAINS ''|missing NOT CONTAINS 'b'|NOT (missing CONTAINS 'b')|5 NOT CONTAINS '5'|(s > 3) NOT CONTAINS 'b'|s CONTAINS b|s CONTAINS 5|s CONTAINS ('b')|s CONTAINS 'a' CONTAINS 'b'|s CONTAINS
s STARTSWITH 'a'|s STARTSWITH 'b'|s STARTSWITH ''|s NOT STARTSWITH 'a'|s NOT STARTSWITH 'b'|s NOT STARTSWITH ''|missing STARTSWITH 'a'|missing NOT STARTSWITH 'a'|euro STARTSWITH '20 '
s ENDSWITH 'c'|s ENDSWITH 'b'|s ENDSWITH ''|s NOT ENDSWITH 'c'|s NOT ENDSWITH 'b'|s NOT ENDSWITH ''|missing ENDSWITH 'a'|missing NOT ENDSWITH 'a'|euro ENDSWITH '€'|s NOT i|s NOT 'a'|s NOT NOT CONTAINS 'b'|s NOT
i = 5 garbage|i = 5 )|i + 1 = 6|i - 1 = 4|s LIKE 'a%'|s NOT LIKE 'a%'|i = 5 i = 5|i = 5 'x'|i = 5 5|i = 5 TRUE|(i = 5|i = 5))|( i = 5 )( i = 5 )|AND|i AND|OR i|i = 5 AND|i = 5 OR OR i = 5|i = 5,|i = 5 NOT
"""  # noqa: E501


def texts() -> list[str]:
    """The filters of the table."""
    table = TEXTS.strip("\n").replace("\n", "|")
    for letter, blank in {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.items():
        table = table.replace(f"\\{letter}", blank)
    return table.split("|")


def recorded() -> list[dict[str, object]]:
    """The table with RocketMQ's answers: what each filter is for each of MESSAGES, or that it is refused."""
    answers: list[dict[str, object]] = json.loads(ANSWERS.read_text())
    return answers


NAMES = ["a", "b", "c", "missing"]
VALUES = [
    *("5", "-3", "+7", "007", "0", "-0", "2147483647", "2147483648", "-2147483648", "-2147483649", "3000000000"),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "9" * 30, "0" * 25 + "5", "-", "+", ""),
    *("5.5", "5.0", "5.", ".5", ".", "-0.0", "0.0", "1e3", "1E-3", "1e400", "-1e400", "4.9e-324", "1e", "5d", "5.5F"),
    *(
        "NaN",
        "-NaN",
        "nan",
        "Infinity",
        "-Infinity",
        "inf",
        "0x1p3",
        "0x.8P-1d",
        "0x1p9999",
        "0x1",
        "1_000",
        " 5",
        "5\t",
    ),
    *("\u00a05", "٣", "５", "𝟓", "12345678901234567890.5", "0.1", "0.30000000000000004", "9007199254740993"),
    *("abc", "ABC", "x", "it's", "true", "TRUE", "tRue", "false", "a b", "20 €", "𝟓x"),
]
CONSTANTS = [
    *("5", "7", "0", "2147483647", "2147483648", "3000000000L", "9223372036854775807", "9007199254740993"),
    *("5.5", "5.0", ".5", "1e3", "4.9E-324", "1.7976931348623157e308", "0.1", "9007199254740992.0"),
    *("'5'", "'abc'", "'x'", "'it''s'", "''", "'true'", "'€'", "TRUE", "FALSE", "NULL"),
]
PATTERNS = ["'a'", "'abc'", "'5'", "'5.5'", "''", "'€'", "'true'", "'𝟓'"]


def chance_message(random: Random) -> dict[str, str]:
    """Properties with values that are numbers, nearly numbers, and words."""
    return {name: random.choice(VALUES) for name in NAMES[:3] if random.random() < 0.85}


def chance_text(random: Random, depth: int = 3) -> str:
    """An expression by the grammar; now and then one that makes no sense."""
    make = random.choice([_logic, _logic, _equality, _comparison, _comparison, _comparison])
    return make(random, depth)


def chance_nonsense(random: Random) -> str:
    """An expression with a few letters lost, doubled or replaced."""
    letters = list(chance_text(random))
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(letters) + 1)
        replaced = random.choice(
            [[], [], list(random.choice(["'", "-", "--", "\n", "(", ")", "=", "NOT ", " 1", "!", ".", "L"]))]
        )
        letters[at : at + random.randint(0, 2)] = replaced
    return "".join(letters)


def _logic(random: Random, depth: int) -> str:
    word = random.choice([" AND ", " OR "])
    return word.join(_term(random, depth - 1) for _ in range(random.randint(2, 3)))


def _term(random: Random, depth: int) -> str:
    if depth <= 0 or random.random() < 0.6:
        return random.choice([_equality, _comparison])(random, depth)
    return random.choice(["({})", "NOT ({})", "{}"]).format(chance_text(random, depth))


def _equality(random: Random, depth: int) -> str:
    tail = random.choice([" = {}", " <> {}", " = {}", " IS NULL", " IS NOT NULL", " = {} = {}", " = {} IS NULL"])
    rest = [_unary(random, depth) for _ in range(tail.count("{}"))]
    return _unary(random, depth) + tail.format(*rest)


def _comparison(random: Random, depth: int) -> str:
    negation = random.choice(["", "NOT "])
    left, low, high = (_unary(random, depth) for _ in range(3))
    members = ", ".join(random.choices(PATTERNS, k=random.randint(1, 6)))
    return random.choice(
        [
            *(f"{left} {symbol} {low}" for symbol in (">", ">=", "<", "<=")),
            f"{left} {negation}BETWEEN {low} AND {high}",
            f"{random.choice(NAMES)} {negation}IN ({members})",
            f"{left} {negation}{random.choice(['CONTAINS', 'STARTSWITH', 'endswith'])} {random.choice(PATTERNS)}",
        ]
    )


def _unary(random: Random, depth: int) -> str:
    chance = random.random()
    if chance < 0.55:
        return random.choice(NAMES)
    if chance < 0.85 or depth <= 0:
        return random.choice(["", "", "-", "- -", "+"]) + random.choice(CONSTANTS)
    return random.choice(["({})", "-({})", "NOT ({})"]).format(chance_text(random, depth - 1))
