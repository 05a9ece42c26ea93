"""The route of a topic, as name servers answer it.

{"brokerDatas":[{"brokerAddrs":{"0":"host:port"},"brokerName":…,"cluster":…,"enableActingMaster":…,"zoneName":…}],
 "filterServerTable":{},"orderTopicConf":…,
 "queueDatas":[{"brokerName":…,"perm":…,"readQueueNums":…,"topicSysFlag":…,"writeQueueNums":…}],
 "topicQueueMappingByBroker":{…}}

Requests of RocketMQ 4.9.4 and later get standard JSON. Older ones get `{0:"host:port"}`, which their
readers take for the same, and Go's client takes apart as text: not a blank may be added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from embermq.errors import CorruptRecord
from embermq.format.json_fields import Fields, parse_fields, read_integer
from embermq.format.wire_json import encode_body
from embermq.model.route import RoutedBroker, RoutedQueues, TopicRoute

STANDARD_SINCE: Final = 401  # the version of requests (4.9.4) that are answered in standard JSON

_I32: Final = 2**31


def encode_route(route: TopicRoute, *, standard: bool) -> bytes:
    """The body of an answer, in either form."""
    members: dict[str, object] = {
        "brokerDatas": [broker_members(broker) for broker in route.brokers],
        "filterServerTable": route.filter_servers,
    }
    if route.order is not None:
        members["orderTopicConf"] = route.order
    members["queueDatas"] = [_queues_members(queues) for queues in route.queues]
    if route.mappings:
        members["topicQueueMappingByBroker"] = route.mappings
    return _encode_standard(members) if standard else encode_body(members)


def decode_route(body: bytes) -> TopicRoute:
    """A route in either form. Raises CorruptRecord."""
    fields = parse_fields(body, "route")
    return TopicRoute(
        queues=tuple(_read_queues(value) for value in fields.find_list("queueDatas") or []),
        brokers=tuple(read_broker(value) for value in fields.find_list("brokerDatas") or []),
        order=fields.text("orderTopicConf", "") or None,
        filter_servers={
            address: read_texts(servers, f"filterServerTable.{address}")
            for address, servers in fields.items("filterServerTable")
        },
        mappings=dict(fields.items("topicQueueMappingByBroker")),
    )


def broker_members(broker: RoutedBroker) -> dict[str, object]:
    """A broker, as it stands in routes and in the list of clusters."""
    members: dict[str, object] = {
        "brokerAddrs": addresses_in_order(broker.addresses),
        "brokerName": broker.name,
        "cluster": broker.cluster,
        "enableActingMaster": broker.acting_master,
    }
    if broker.zone is not None:
        members["zoneName"] = broker.zone
    return members


def read_broker(value: object) -> RoutedBroker:
    fields = Fields(value, "broker")
    return RoutedBroker(
        cluster=fields.text("cluster", ""),
        name=fields.text("brokerName", ""),
        addresses=read_addresses(fields),
        acting_master=fields.boolean("enableActingMaster", False),
        zone=fields.text("zoneName", "") or None,
    )


def addresses_in_order(addresses: Mapping[int, str]) -> dict[int, str]:
    return dict(sorted(addresses.items()))


def read_addresses(fields: Fields) -> dict[int, str]:
    """The member `brokerAddrs`."""
    found = {}
    for key, address in fields.items("brokerAddrs"):
        if not isinstance(address, str):
            raise CorruptRecord(0, f"brokerAddrs.{key[:80]}: text expected, found {repr(address)[:80]}")
        found[read_integer(key, "brokerAddrs")] = address
    return found


def read_texts(value: object, where: str) -> tuple[str, ...]:
    """An array of texts; none of null."""
    elements = value or []
    if not isinstance(elements, list) or not all(isinstance(element, str) for element in elements):
        raise CorruptRecord(0, f"{where[:80]}: an array of texts expected, found {repr(value)[:80]}")
    return tuple(elements)


def read_count(fields: Fields, name: str, default: int = 0) -> int:
    """A number that is not negative and has 31 bits at most."""
    value = fields.integer(name, default)
    if not 0 <= value < _I32:
        raise CorruptRecord(0, f"{name}: {value} is not in [0, {_I32})")
    return value


def _encode_standard(members: Mapping[str, object]) -> bytes:
    """What any JSON reader takes: keys in quotes and in order, ASCII alone."""
    return json.dumps(_in_order(members), separators=(",", ":")).encode()


def _in_order(value: object) -> object:
    match value:
        case Mapping():
            keys = sorted(value, key=lambda key: (isinstance(key, str), key))
            return {str(key): _in_order(value[key]) for key in keys}
        case list() | tuple():
            return [_in_order(element) for element in value]
    return value


def _queues_members(queues: RoutedQueues) -> dict[str, object]:
    return {
        "brokerName": queues.broker,
        "perm": int(queues.permission),
        "readQueueNums": queues.read_queues,
        "topicSysFlag": queues.sys_flag,
        "writeQueueNums": queues.write_queues,
    }


def _read_queues(value: object) -> RoutedQueues:
    fields = Fields(value, "queues")
    name = "topicSynFlag" if "topicSynFlag" in fields.members else "topicSysFlag"  # so until 4.7
    return RoutedQueues(
        broker=fields.text("brokerName", ""),
        read_queues=read_count(fields, "readQueueNums"),
        write_queues=read_count(fields, "writeQueueNums"),
        permission=read_count(fields, "perm"),
        sys_flag=fields.integer(name),
    )
