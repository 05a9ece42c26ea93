"""Where topics are, and which brokers there are: what clients ask for."""

from __future__ import annotations

from dataclasses import replace

from embermq.clock import Clock
from embermq.errors import TopicNotFound
from embermq.format.cluster_body import encode_clusters, encode_members
from embermq.format.command import Command, make_answer
from embermq.format.route_body import STANDARD_SINCE, encode_route
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.route import RoutedBroker
from embermq.model.topic import find_nearest
from embermq.nameserver.key_values import ORDER_TOPICS, KeyValues
from embermq.nameserver.routes import Routes
from embermq.nameserver.settings import LiveSettings
from embermq.nameserver.tailoring import in_zone, reachable_broker, reachable_clusters, reachable_route, with_stand_ins
from embermq.rpc.fields import find_boolean, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler


class RoutingHandlers:
    """Answers from the routes; changes nothing."""

    def __init__(self, routes: Routes, key_values: KeyValues, settings: LiveSettings, clock: Clock) -> None:
        self._routes = routes
        self._key_values = key_values
        self._settings = settings
        self._clock = clock
        self._started_at = clock.monotonic()

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_ROUTE_BY_TOPIC: self.find_route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.list_clusters,
            RequestCode.GET_BROKER_MEMBER_GROUP: self.list_members,
        }

    def find_route(self, peer: Peer, request: Command) -> Command:
        """The queues of a topic, and the addresses of the brokers that have them. Raises TopicNotFound."""
        topic = read_text(request.fields, "topic")
        settings = self._settings.current
        if settings.wait_for_service and self._clock.monotonic() - self._started_at < settings.wait_for_service_s:
            return make_answer(request, ResponseCode.SYSTEM_ERROR, remark="name server not ready; try again later")
        route = self._routes.find_route(topic)
        if route is None:
            raise TopicNotFound(topic, find_nearest(topic, self._routes.topics()))
        if settings.acting_master:
            route = with_stand_ins(route)
        if settings.order_topics:
            route = replace(route, order=self._key_values.find(ORDER_TOPICS, topic))
        route = reachable_route(in_zone(route, request.fields), peer.local)
        standard = request.version >= STANDARD_SINCE or bool(find_boolean(request.fields, "acceptStandardJsonOnly"))
        return make_answer(request, body=encode_route(route, standard=standard))

    def list_clusters(self, peer: Peer, request: Command) -> Command:
        return make_answer(request, body=encode_clusters(reachable_clusters(self._routes.clusters(), peer.local)))

    def list_members(self, peer: Peer, request: Command) -> Command:
        """The master of a broker and its copies; none if the broker is not known."""
        cluster, name = read_text(request.fields, "clusterName"), read_text(request.fields, "brokerName")
        broker = self._routes.find_broker(name) or RoutedBroker(cluster, name, {})
        return make_answer(request, body=encode_members(reachable_broker(broker, peer.local)))
