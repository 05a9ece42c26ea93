"""Which messages are wanted: tags and SQL92 over properties, as RocketMQ's brokers understand them.

    from embermq.filters import parse_filter

    wanted = parse_filter("amount > 100 AND region = 'eu'")       # or tags: "eu || us"
    wanted.matches({"amount": "250", "region": "eu"})             # one message
    wanted.mask(PropertyTable(count, properties))                 # a batch of them, in Arrow's columns

What is read from a text once is a tree (sql_reading.py, sql_building.py), which becomes a function of one message
(sql_program.py) and is walked over columns (sql_columns.py). Both give the same, always.
"""

from embermq.filters.parsing import Filter, parse_filter
from embermq.filters.sql_filter import SqlFilter, parse_sql
from embermq.filters.tag_expression import TagExpression, parse_tags

__all__ = ["Filter", "SqlFilter", "TagExpression", "parse_filter", "parse_sql", "parse_tags"]
