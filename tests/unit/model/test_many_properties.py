"""One property of many messages, found at once as it is found in each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embermq.model.many_properties import ManyProperties
from embermq.model.properties import find_property, format_properties

NAMES = st.sampled_from(["TAGS", "XTAGS", "KEYS", "T"])
VALUES = st.sampled_from(["", "a", "ä", "TAGS", "\x01", "TAGS\x01b", "\xff"])
PIECES = st.lists(st.tuples(NAMES, VALUES), max_size=3).map(
    lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs)
)
LOOSE = PIECES.map(lambda text: text.removesuffix("\x02"))
PROPERTIES = (PIECES | LOOSE).map(str.encode) | LOOSE.map(lambda text: text.encode("latin-1"))


@given(st.lists(PROPERTIES, max_size=4))
def test_what_is_found_is_what_each_has(each: list[bytes]) -> None:
    found = ManyProperties(each).find(b"TAGS")
    alone = [find_property(properties, b"TAGS") for properties in each]
    assert found is None or found == alone or (found == [] and not any(alone))


@given(st.lists(st.tuples(st.booleans(), st.text(st.characters(min_codepoint=3), min_size=1)), min_size=1))
def test_what_every_message_has_once_is_found_without_looking_at_each(values: list[tuple[bool, str]]) -> None:
    each = [
        format_properties({"WAIT": "true", "TAGS": value} if is_second else {"TAGS": value, "WAIT": "true"})
        for is_second, value in values
    ]
    assert ManyProperties(each).find(b"TAGS") == [value.encode() for _, value in values]
    assert ManyProperties(each).find(b"KEYS") == []
