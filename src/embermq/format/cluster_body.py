"""The answers of a name server that are neither a route nor a registration: clusters, members, lists.

    clusters   {"brokerAddrTable":{name:{…}},"clusterAddrTable":{cluster:[name]}}
    members    {"brokerMemberGroup":{"brokerAddrs":{0:"host:port"},"brokerName":…,"cluster":…}}
    topics     {"brokerAddr":…,"topicList":[…]}
    values     {"table":{key:value}}

All of them in the raw form: numbers as keys have no quotes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from embermq.format.json_fields import Fields, parse_fields
from embermq.format.route_body import addresses_in_order, broker_members, read_addresses, read_broker, read_texts
from embermq.format.wire_json import encode_body
from embermq.model.route import Clusters, RoutedBroker


def encode_clusters(clusters: Clusters) -> bytes:
    return encode_body(
        {
            "brokerAddrTable": {name: broker_members(broker) for name, broker in clusters.brokers.items()},
            "clusterAddrTable": clusters.clusters,
        }
    )


def decode_clusters(body: bytes) -> Clusters:
    """Raises CorruptRecord."""
    fields = parse_fields(body, "clusters")
    return Clusters(
        brokers={name: read_broker(value) for name, value in fields.items("brokerAddrTable")},
        clusters={name: read_texts(value, f"cluster {name}") for name, value in fields.items("clusterAddrTable")},
    )


def encode_members(broker: RoutedBroker) -> bytes:
    members = {
        "brokerAddrs": addresses_in_order(broker.addresses),
        "brokerName": broker.name,
        "cluster": broker.cluster,
    }
    return encode_body({"brokerMemberGroup": members})


def decode_members(body: bytes) -> RoutedBroker:
    """Raises CorruptRecord."""
    fields = parse_fields(body, "members").find_fields("brokerMemberGroup") or Fields({}, "members")
    return RoutedBroker(
        cluster=fields.text("cluster", ""), name=fields.text("brokerName", ""), addresses=read_addresses(fields)
    )


def encode_topic_list(topics: Iterable[str], *, broker_address: str | None = None) -> bytes:
    members: dict[str, object] = {} if broker_address is None else {"brokerAddr": broker_address}
    return encode_body({**members, "topicList": list(topics)})


def decode_topic_list(body: bytes) -> tuple[str, ...]:
    """Raises CorruptRecord."""
    return read_texts(parse_fields(body, "topics").members.get("topicList"), "topicList")


def encode_values(values: Mapping[str, str]) -> bytes:
    return encode_body({"table": values})


def decode_values(body: bytes) -> dict[str, str]:
    """Raises CorruptRecord."""
    return parse_fields(body, "values").texts("table")
