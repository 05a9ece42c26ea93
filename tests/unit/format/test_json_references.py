from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.lenient_json import parse_lenient


def parse(value: object) -> object:
    return parse_lenient(json.dumps(value))


def ref(path: object) -> dict[str, object]:
    return {"$ref": path}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.a", {"x": "1"}),
        ("$.a.x", "1"),
        ("$.list[1]", {"y": 2}),
        ("$.list[1].y", 2),
        ("$.table.\\%RETRY\\%g\\.1", {"z": 3}),
        ("$.other", {"x": "1"}),
        ("$.other.x", "1"),
    ],
)
def test_a_reference_becomes_what_it_refers_to(path: str, expected: object) -> None:
    tables = {
        "a": {"x": "1"},
        "list": [0, {"y": 2}],
        "table": {"%RETRY%g.1": {"z": 3}},
        "other": ref("$.a"),
        "here": ref(path),
    }
    found = parse(tables)
    assert isinstance(found, dict)
    assert found["here"] == expected
    assert found["other"] == {"x": "1"}


def test_numbers_as_keys_can_be_referred_to() -> None:
    text = "{'a':{0:{'x':1},-2:[7]},'b':{'$ref':'$.a[0]'},'c':{'$ref':'$.a.0.x'},'d':{'$ref':'$.a.\\\\-2[0]'}}"
    found = parse_lenient(text)
    assert found == {"a": {0: {"x": 1}, -2: [7]}, "b": {"x": 1}, "c": 1, "d": 7}


@pytest.mark.parametrize(
    "path", ["$.nowhere", "$.a.x.y", "$.list[9]", "$.a[0]", "$.x[0]", "$!", "$.", "a", "", 5, None, "$.a[", "$.list.1"]
)
def test_a_reference_to_nothing_becomes_an_empty_map(path: object) -> None:
    found = parse({"a": {"x": "1"}, "list": [0], "x": 1, "here": ref(path)})
    assert isinstance(found, dict)
    assert found["here"] == {}


@pytest.mark.parametrize("path", ["$", "..", "@", "$.a", "$.a.b"])
def test_a_value_that_would_contain_itself_is_refused(path: str) -> None:
    with pytest.raises(CorruptRecord, match="part of"):
        parse({"a": {"b": {"c": ref(path)}}})


def test_references_in_a_circle_are_refused() -> None:
    with pytest.raises(CorruptRecord, match="part of"):
        parse({"a": ref("$.b"), "b": ref("$.a")})


def test_many_references_to_references_do_not_multiply() -> None:
    value: dict[str, object] = {"v0": ["x"]}
    for level in range(1, 60):
        value[f"v{level}"] = [ref(f"$.v{level - 1}")] * 2
    found = parse(value)
    assert isinstance(found, dict)
    assert len(found) == 60


def test_a_chain_of_references_has_a_limit() -> None:
    chain = {f"v{number}": ref(f"$.v{number + 1}") for number in range(5000)}
    with pytest.raises(CorruptRecord):
        parse(chain)


def test_an_object_with_more_than_a_reference_is_an_object() -> None:
    assert parse({"a": {"$ref": "$.b", "x": 1}, "b": 2}) == {"a": {"$ref": "$.b", "x": 1}, "b": 2}


paths = st.text(alphabet=st.sampled_from("$.ab[]01\\@"), max_size=8).map(lambda path: ref(f"${path}"))
trees = st.recursive(
    paths | st.integers(0, 1),
    lambda inner: st.dictionaries(st.sampled_from("ab01"), inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@given(trees)
def test_any_references_are_resolved_or_refused(tree: object) -> None:
    try:
        found = parse(tree)
    except CorruptRecord:
        return
    assert '"$ref"' not in json.dumps(found)
