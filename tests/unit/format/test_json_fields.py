from __future__ import annotations

import pytest

from embermq.errors import CorruptRecord
from embermq.format.json_fields import Fields, parse_fields, read_integer


def test_members_have_their_type_or_their_default() -> None:
    fields = parse_fields('{"n":5,"t":"x","b":true,"m":{"a":"1"},"i":{"3":4},"l":[1]}', "table")
    assert (fields.integer("n", 1), fields.integer("none", 1)) == (5, 1)
    assert (fields.text("t", "y"), fields.text("none", "y")) == ("x", "y")
    assert (fields.boolean("b", False), fields.boolean("none", False)) == (True, False)
    assert (fields.texts("m"), fields.texts("none")) == ({"a": "1"}, {})
    assert (fields.integers("i"), fields.integers("none")) == ({3: 4}, {})
    assert (fields.find_list("l"), fields.find_list("none")) == ([1], None)
    assert fields.find_fields("none") is None
    found = fields.find_fields("m")
    assert found is not None
    assert found.text("a", "") == "1"


def test_null_is_as_good_as_missing() -> None:
    fields = parse_fields('{"a":null}', "table")
    assert fields.integer("a", 7) == 7
    assert fields.text("a", "x") == "x"
    assert fields.boolean("a", True) is True
    assert fields.items("a") == []
    assert fields.find_fields("a") is None
    assert fields.find_list("a") is None


def test_numbers_and_truths_in_quotes_are_taken() -> None:
    fields = parse_fields('{"n":"-12","b":"false"}', "table")
    assert fields.integer("n") == -12
    assert fields.boolean("b", True) is False


def test_plain_values_among_texts_become_text_and_null_goes() -> None:
    assert parse_fields('{"m":{"a":1,"b":"x","c":null}}', "table").texts("m") == {"a": "1", "b": "x"}


@pytest.mark.parametrize("value", ['"x"', "1.5", "true", "[]", "{}", '""', '"1.0"', str(2**63), str(-(2**63) - 1)])
def test_what_is_no_number_is_reported_with_its_place(value: str) -> None:
    fields = parse_fields(f'{{"a":{value}}}', "table")
    with pytest.raises(CorruptRecord, match=r"table\.a: a number expected"):
        fields.integer("a")


def test_a_number_may_have_64_bits() -> None:
    for value in (2**63 - 1, -(2**63)):
        assert read_integer(str(value), "here") == value


def test_other_types_are_reported() -> None:
    fields = Fields({"a": 1, "b": "yes", "m": {"x": []}}, "table")
    for read in (fields.items, fields.find_list, fields.texts, fields.integers, fields.find_fields):
        with pytest.raises(CorruptRecord, match=r"table\.a: an (object|array) expected, found 1"):
            read("a")
    with pytest.raises(CorruptRecord, match="text expected"):
        fields.text("a", "")
    with pytest.raises(CorruptRecord, match="true or false expected"):
        fields.boolean("b", False)
    with pytest.raises(CorruptRecord, match=r"m\.x: text expected"):
        fields.texts("m")


def test_a_table_is_an_object_in_utf_8() -> None:
    assert parse_fields('{"a":"é"}'.encode(), "table").text("a", "") == "é"
    with pytest.raises(CorruptRecord, match="table: an object expected"):
        parse_fields("[]", "table")
    with pytest.raises(CorruptRecord, match="not UTF-8") as caught:
        parse_fields(b'{"a":"\xff"}', "table")
    assert caught.value.position == 6
