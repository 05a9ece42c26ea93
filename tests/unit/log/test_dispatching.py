"""Tags codes of many drafts are those of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embermq.format.record import Draft
from embermq.log.dispatching import tags_code_of, tags_codes
from embermq.model.topic import SCHEDULE_TOPIC

LEVELS = (1_000, 5_000)
NAMES = st.sampled_from(["TAGS", "XTAGS", "DELAY", "KEYS", "T"])
VALUES = st.sampled_from(["", "a", "b", "ab", "1", "2", "99", "ä", "TAGS", "\x01"])
PROPERTIES = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(
    lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()
)
LOOSE = PROPERTIES.map(lambda data: data.removesuffix(b"\x02"))
DRAFTS = st.builds(
    Draft, st.sampled_from([b"orders", SCHEDULE_TOPIC.encode()]), st.just(0), st.just(b""), PROPERTIES | LOOSE
)


@given(st.lists(DRAFTS, max_size=8))
def test_the_codes_of_many_are_those_of_each(drafts: list[Draft]) -> None:
    alone = [tags_code_of(draft.topic.decode(), draft.properties, 1_700_000_000_000, LEVELS) for draft in drafts]
    assert tags_codes(drafts, 1_700_000_000_000, LEVELS) == alone
