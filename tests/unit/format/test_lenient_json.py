from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.lenient_json import format_compact, format_fastjson, parse_lenient

OFFSETS = """{
\t"dataVersion":{
\t\t"counter":1,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"groupTopicMap":{
\t\t"GroupA":["TopicTest"]
\t},
\t"offsetTable":{
\t\t"TopicTest@GroupA":{0:6,1:5
\t\t}
\t}
}"""

texts = st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(st.integers(-9, 9), inner, max_size=4)
    ),
    max_leaves=20,
)


def test_the_exact_text_of_the_format_is_read_and_written() -> None:
    value = {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1700000000000},
        "groupTopicMap": {"GroupA": ("TopicTest",)},
        "offsetTable": {"TopicTest@GroupA": {0: 6, 1: 5}},
    }
    assert format_fastjson(value) == OFFSETS
    assert parse_lenient(OFFSETS) == {**value, "groupTopicMap": {"GroupA": ["TopicTest"]}}


@given(values)
def test_what_we_write_is_read_back_equal(value: object) -> None:
    assert parse_lenient(format_fastjson(value)) == value


@given(values)
def test_strict_json_is_read_as_it_is(value: object) -> None:
    strict = json.dumps(value)
    assert parse_lenient(strict) == json.loads(strict)


@given(values)
def test_the_lenient_way_reads_strict_json_as_the_strict_way_does(value: object) -> None:
    """A map with a number for a key is in front, so that the strict way gives up."""
    strict = json.dumps(value)
    assert parse_lenient(f"[{{0:1}},{strict}]") == [{0: 1}, json.loads(strict)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{0:250,1:17\n\t}", {0: 250, 1: 17}),
        ("{-1:2}", {-1: 2}),
        ('{"0":250}', {"0": 250}),
        ("{'a':'it\\'s \"x\"'}", {"a": 'it\'s "x"'}),
        ("{a:1,b_2:'x',$c:null}", {"a": 1, "b_2": "x", "$c": None}),
        ("{%RETRY%g-1@x:1}", {"%RETRY%g-1@x": 1}),
        ("{1a:2}", {"1a": 2}),
        ("{true:1,null:2}", {"true": 1, "null": 2}),
        ("{,'a':1,,'b':2,}", {"a": 1, "b": 2}),
        ("[,1,,2,]", [1, 2]),
        ("[1.5,-2e3,1E+2]", [1.5, -2000.0, 100.0]),
        (" \r\n\t[ 1 , 2 ] \n", [1, 2]),
        ("\ufeff{0:1}", {0: 1}),
        ("['\\u00e9\\x41\\v\\0\\/']", ["éA\v\0/"]),
        ("['\\ud83d\\ude00']", ["😀"]),
        ("['\\ud83d']", ["\ud83d"]),
        ("{0:{1:{2:[{}]}}}", {0: {1: {2: [{}]}}}),
        ("{0:1,0:2}", {0: 2}),
    ],
)
def test_what_fastjson_takes_is_taken(text: str, expected: object) -> None:
    assert parse_lenient(text) == expected


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("   ", 3),
        ("{0:1", 4),
        ("{0", 2),
        ("{0:}", 3),
        ("{0 1}", 3),
        ("{0:1 1:2}", 5),
        ("[1 2]", 3),
        ("['a", 3),
        ("['\\q']", 2),
        ("['\\u12x4']", 2),
        ("['\\", 2),
        ("[nonsense]", 1),
        ("[NaN]", 1),
        ("{0:1}}", 5),
        ("[1]]", 3),
        ("[" + "1" * 4301 + "]", 1),
        ("[-]", 1),
    ],
)
def test_what_makes_no_sense_is_reported_where_it_stops_making_sense(text: str, position: int) -> None:
    with pytest.raises(CorruptRecord) as caught:
        parse_lenient(text)
    assert caught.value.position == position


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{0:", "}"), ('{"a":', "}")])
def test_nesting_has_a_limit(opening: str, closing: str) -> None:
    deepest = opening * 100 + "1" + closing * 100
    assert parse_lenient(format_fastjson(parse_lenient(deepest))) == parse_lenient(deepest)
    for depth in (101, 5000, 200_000):
        with pytest.raises(CorruptRecord, match="nested"):
            parse_lenient(opening * depth + "1" + closing * depth)


@given(st.text(alphabet=st.sampled_from("{}[]:,'\"\\ub0a1-.e $ref@\n"), max_size=40))
def test_any_text_is_read_or_reported(text: str) -> None:
    try:
        value = parse_lenient(text)
    except CorruptRecord:
        return
    assert parse_lenient(format_fastjson(value)) == value


def test_lists_have_a_line_for_each_element_and_sets_have_one_line() -> None:
    assert format_fastjson({"a": ["x", 1]}) == '{\n\t"a":[\n\t\t"x",\n\t\t1\n\t]\n}'
    assert format_fastjson({"a": ("x", 1)}) == '{\n\t"a":["x",1]\n}'
    assert format_fastjson({"a": {"y", "x"}, "b": frozenset()}) == '{\n\t"a":["x","y"],\n\t"b":[]\n}'


def test_empty_containers_have_no_line_of_their_own() -> None:
    assert format_fastjson({"a": {}, "b": [], "c": ()}) == '{\n\t"a":{},\n\t"b":[],\n\t"c":[]\n}'


def test_objects_inside_of_a_map_with_numbers_begin_a_line_for_each_member() -> None:
    assert format_fastjson({"t": {0: {"a": 1}, 1: {}}}) == '{\n\t"t":{0:{\n\t\t\t"a":1\n\t\t},1:{}\n\t}\n}'


def test_text_is_written_as_it_is_but_for_quotes_and_controls() -> None:
    assert format_fastjson('é😀"\\\n\x01') == '"é😀\\"\\\\\\n\\u0001"'


def test_half_a_character_can_be_written() -> None:
    assert format_fastjson("\ud83d").encode() == b'"\\ud83d"'


def test_numbers_that_are_none_become_null() -> None:
    assert format_fastjson((float("nan"), float("-inf"), 1.5)) == "[null,null,1.5]"


def test_metrics_are_compact_and_safe_for_a_browser() -> None:
    value = {"a": {"é": 2**53 - 1, "b": 2**53, "c": -(2**53)}, "d": [True, None]}
    expected = '{"a":{"\\u00e9":9007199254740991,"b":"9007199254740992","c":"-9007199254740992"},"d":[true,null]}'
    assert format_compact(value) == expected


def test_an_object_as_a_key_becomes_its_text() -> None:
    raw = '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7,{"brokerName":"b","queueId":1,"topic":"T"}:9}}'
    keys = ['{"brokerName":"b","queueId":0,"topic":"T"}', '{"brokerName":"b","queueId":1,"topic":"T"}']
    assert parse_lenient(raw) == {"offsetTable": dict(zip(keys, [7, 9], strict=True))}
