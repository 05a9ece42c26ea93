"""The file of ordered queues, in RocketMQ's spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.order_json import decode_orders, encode_orders
from embermq.model.pop_order import Order

# What RocketMQ's own class wrote.
WRITTEN = '{"table":{"T@g":{0:{"a":"att2","cm":0,"i":30000,"l":7,"o":[6,2,3],"oc":{6:1,8:1},"popTime":1700000001000}}}}'
SMALL = st.integers(0, 2**40)
ORDERS = st.builds(
    Order,
    st.lists(SMALL, min_size=1, max_size=40).map(sorted),
    pop_time=SMALL,
    invisible_ms=SMALL,
    attempt=st.none() | st.text("abc", min_size=1),
    acked=st.integers(0, 2**64 - 1),
    due_ms=st.dictionaries(SMALL, SMALL, max_size=3),
    counts=st.dictionaries(SMALL, SMALL, max_size=3),
    changed_ms=SMALL,
)
KEYS = st.tuples(st.text("abc_%", min_size=1), st.text("abc_", min_size=1), st.integers(0, 100))


@given(st.dictionaries(KEYS, ORDERS, max_size=5))
def test_ordered_queues_survive_their_text(orders: dict[tuple[str, str, int], Order]) -> None:
    assert decode_orders(encode_orders(orders)) == orders


def test_what_rocketmq_wrote_is_written_again() -> None:
    orders = decode_orders(WRITTEN)
    assert orders["T", "g", 0].offsets == [6, 8, 9]
    assert "".join(encode_orders(orders).decode().split()) == WRITTEN


@pytest.mark.parametrize("text", ["[]", '{"table":{"T":{0:{"o":[1]}}}}', '{"table":{"T@g":{"x":{"o":[1]}}}}'])
def test_a_damaged_table_is_refused(text: str) -> None:
    with pytest.raises(CorruptRecord):
        decode_orders(text)
