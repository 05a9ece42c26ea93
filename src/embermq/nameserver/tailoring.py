"""A route as one client is to see it: near brokers only, a stand-in for a lost master, addresses it can reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from embermq.model.message import Host
from embermq.model.route import MASTER_ID, Clusters, RoutedBroker, TopicRoute


def reachable_address(address: str, local: Host) -> str:
    """`address`; of a broker of this process that listens everywhere, the one that the client reached us at."""
    return str(Host(local.address, int(address[1:]))) if address.startswith(":") else address


def reachable_broker(broker: RoutedBroker, local: Host) -> RoutedBroker:
    addresses = {number: reachable_address(address, local) for number, address in broker.addresses.items()}
    return broker if addresses == broker.addresses else replace(broker, addresses=addresses)


def reachable_route(route: TopicRoute, local: Host) -> TopicRoute:
    servers = {reachable_address(address, local): servers for address, servers in route.filter_servers.items()}
    brokers = tuple(reachable_broker(broker, local) for broker in route.brokers)
    return replace(route, brokers=brokers, filter_servers=servers)


def reachable_clusters(clusters: Clusters, local: Host) -> Clusters:
    brokers = {name: reachable_broker(broker, local) for name, broker in clusters.brokers.items()}
    return Clusters(brokers, clusters.clusters)


def in_zone(route: TopicRoute, fields: Mapping[str, str]) -> TopicRoute:
    """The brokers of the zone that the request's fields name; those without a master are kept, to be read from."""
    if fields.get("__ZONE_MODE", "").lower() != "true":
        return route
    zone = fields.get("__ZONE_NAME", "")
    if not zone:
        return route
    near = [broker for broker in route.brokers if broker.master is None or (broker.zone or "").lower() == zone.lower()]
    names = {broker.name for broker in near}
    addresses = {address for broker in near for address in broker.addresses.values()}
    return replace(
        route,
        brokers=tuple(near),
        queues=tuple(queues for queues in route.queues if queues.broker in names),
        filter_servers={at: servers for at, servers in route.filter_servers.items() if at in addresses},
    )


def with_stand_ins(route: TopicRoute) -> TopicRoute:
    """The first copy in the place of a lost master, where the broker allows it and nothing can be written."""
    writable = {queues.broker for queues in route.queues if queues.is_writable}
    return replace(route, brokers=tuple(_with_stand_in(broker, writable) for broker in route.brokers))


def _with_stand_in(broker: RoutedBroker, writable: set[str]) -> RoutedBroker:
    if not broker.acting_master or broker.master is not None or broker.name in writable or not broker.addresses:
        return broker
    first = min(broker.addresses)
    rest = {number: address for number, address in broker.addresses.items() if number != first}
    return replace(broker, addresses={MASTER_ID: broker.addresses[first], **rest})
