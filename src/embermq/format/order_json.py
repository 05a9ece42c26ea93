"""config/consumerOrderInfo.json: the queues that were popped in order, and what of them is not done.

    {"table":{"T@g":{0:{"a":"attempt","cm":1,"i":30000,"l":…,"o":[5,1,3],"oc":{6:1},"ot":{6:…},"popTime":…}}}}

`o` has the first offset, and of the others how far behind it they are; `cm` has a bit for each that is done.
"""

from __future__ import annotations

from collections.abc import Mapping

from embermq.errors import CorruptRecord
from embermq.format.json_fields import Fields, parse_fields, read_integer, read_items
from embermq.format.tables import encode_table
from embermq.model.pop_order import Order

Key = tuple[str, str, int]  # topic, group, queue


def decode_orders(data: bytes | str) -> dict[Key, Order]:
    """Raises CorruptRecord."""
    found = {}
    for name, queues in parse_fields(data, "orders").items("table"):
        topic, joint, group = name.rpartition("@")
        if not joint:
            raise CorruptRecord(0, f"orders.table: {name[:80]!r} is no topic and group")
        for queue, value in read_items(queues, name):
            entry = _read_entry(Fields(value, f"{name}.{queue}"))
            if entry.offsets:
                found[topic, group, read_integer(queue, name)] = entry
    return found


def encode_orders(orders: Mapping[Key, Order]) -> bytes:
    table: dict[str, dict[int, object]] = {}
    for (topic, group, queue), entry in orders.items():
        table.setdefault(f"{topic}@{group}", {})[queue] = _members(entry)
    return encode_table({"table": table})


def _read_entry(fields: Fields) -> Order:
    numbers = [read_integer(each, "orders.o") for each in fields.find_list("o") or []]
    offsets = [*numbers[:1], *(numbers[0] + step for step in numbers[1:])]
    return Order(
        offsets,
        pop_time=fields.integer("popTime"),
        invisible_ms=fields.integer("i"),
        attempt=fields.text("a", "") or None,
        acked=fields.integer("cm") % 2**64,
        due_ms=fields.integers("ot"),
        counts=fields.integers("oc"),
        changed_ms=fields.integer("l"),
    )


def _members(entry: Order) -> dict[str, object]:
    first, *others = entry.offsets
    members = {
        "a": entry.attempt,
        "cm": (entry.acked + 2**63) % 2**64 - 2**63,
        "i": entry.invisible_ms,
        "l": entry.changed_ms,
        "o": [first, *(offset - first for offset in others)],
        "oc": entry.counts or None,
        "ot": entry.due_ms or None,
        "popTime": entry.pop_time,
    }
    return {name: value for name, value in members.items() if value is not None}
