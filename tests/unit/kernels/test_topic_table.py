"""Topics by name, as kernels find them: the same as in a dict."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.format.command import encode_command
from embermq.kernels.memory import address_of
from embermq.kernels.send_rows import ROW_SIZE, TOPIC
from embermq.kernels.sends import SendLimits
from embermq.kernels.topics import UNKNOWN, TopicTable, find_topic, number_topics
from tests.unit.kernels.sent_frames import CASES, Reader, send

_names = st.binary(min_size=1, max_size=300)


def test_an_empty_table_knows_nothing() -> None:
    table = TopicTable()
    assert table.find(b"orders") is None
    assert table.find(b"") is None
    assert len(table) == 0


@given(st.dictionaries(_names, st.integers(0, 2**63 - 1)), st.lists(_names))
def test_names_are_found_as_in_a_dict(topics: dict[bytes, int], others: list[bytes]) -> None:
    table = TopicTable(topics)
    for name in [*topics, *others]:
        assert table.find(name) == topics.get(name)
    assert list(table) == list(topics)


@pytest.mark.parametrize("cases", CASES)
def test_it_grows_and_changes_as_a_dict_does(cases: int) -> None:
    random = Random(cases)
    table, expected = TopicTable(), dict[bytes, int]()
    for case in range(cases):
        name = b"topic-%d" % random.randrange(cases // 2)
        if random.random() < 0.5:
            table.add(name, case)
            expected[name] = case
        elif random.random() < 0.002 and case < 20_000:
            expected = {name: number for name, number in expected.items() if number % 2}
            table.replace(expected)
        assert table.find(name) == expected.get(name)
    assert len(table) == len(expected) > cases // 10


@pytest.mark.parametrize(("name", "number"), [(b"", 1), (b"orders", -1)])
def test_what_would_not_be_found_is_not_added(name: bytes, number: int) -> None:
    with pytest.raises(ValueError, match="a name and a number of 0 or more"):
        TopicTable().add(name, number)


def test_a_damaged_table_finds_nothing_or_something_and_ends() -> None:
    random = Random(7)
    name = b"orders"
    for _ in range(3_000):
        numbers = np.array(random.choices((0, 1, 2, 3, 8, 16, -1, 2**62, -(2**63), 6), k=random.randrange(1, 40)))
        memory = numbers.astype(np.int64)
        found = find_topic(int(memory.ctypes.data), memory.nbytes, address_of(name), len(name))
        assert found == UNKNOWN or found in memory.tolist()


def test_rows_get_the_numbers_of_their_topics_up_to_the_first_without_one() -> None:
    reader = Reader()
    names = ("orders", "billing", "orders", "unknown", "orders")
    data = b"".join(encode_command(send(b=name)) for name in names)
    _, got = reader.read(data, SendLimits())
    table = TopicTable({b"orders": 3, b"billing": 0})
    rows, source = reader.into.rows_address, address_of(data)
    assert number_topics(rows, got.rows, source, len(data), table.address, table.size) == 3
    assert reader.into.rows[:3, TOPIC].tolist() == [3, 0, 3]
    assert number_topics(rows + 4 * ROW_SIZE, 1, source, len(data), table.address, table.size) == 1
    assert number_topics(rows, got.rows, source, 10, table.address, table.size) == 0, "outside of the source"
