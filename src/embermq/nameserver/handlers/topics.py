"""Lists of topics, and what administrators do to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from embermq.errors import CorruptRecord, IllegalField, NotPermitted
from embermq.format.cluster_body import encode_topic_list
from embermq.format.command import Command, make_answer
from embermq.format.route_body import decode_route
from embermq.model.codes import RequestCode
from embermq.model.topic import check_topic
from embermq.nameserver.routes import UNIT, UNIT_SUBSCRIBED, Routes
from embermq.nameserver.settings import LiveSettings
from embermq.nameserver.tailoring import reachable_address
from embermq.rpc.fields import read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler


class TopicHandlers:
    """Topics by name, by cluster and by kind."""

    def __init__(self, routes: Routes, settings: LiveSettings) -> None:
        self._routes = routes
        self._settings = settings

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_ALL_TOPICS_FROM_NAMESERVER: self.list_all,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.list_cluster,
            RequestCode.GET_SYSTEM_TOPICS_FROM_NAMESERVER: self.list_system,
            RequestCode.GET_UNIT_TOPICS: self._list_by(lambda flag: bool(flag & UNIT)),
            RequestCode.GET_HAS_UNIT_SUB_TOPICS: self._list_by(lambda flag: bool(flag & UNIT_SUBSCRIBED)),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPICS: self._list_by(
                lambda flag: bool(flag & UNIT_SUBSCRIBED) and not flag & UNIT
            ),
            RequestCode.WIPE_WRITE_PERM: self.wipe_write,
            RequestCode.ADD_WRITE_PERM: self.restore_write,
            RequestCode.DELETE_TOPIC_IN_NAMESERVER: self.delete,
            RequestCode.REGISTER_TOPIC_IN_NAMESERVER: self.register,
        }

    def list_all(self, peer: Peer, request: Command) -> Command:
        if not self._settings.current.all_topics_list:
            raise NotPermitted("the list of all topics is switched off (all_topics_list)")
        return _answer(request, self._routes.topics())

    def list_cluster(self, peer: Peer, request: Command) -> Command:
        self._check_lists()
        return _answer(request, self._routes.topics(cluster=read_text(request.fields, "cluster")))

    def list_system(self, peer: Peer, request: Command) -> Command:
        """The names of clusters and brokers, which are topics, too; and the address of a broker to ask for more."""
        self._check_lists()
        clusters = self._routes.clusters()
        names = [name for cluster, brokers in clusters.clusters.items() for name in (cluster, *brokers)]
        addresses = [address for broker in clusters.brokers.values() for address in broker.addresses.values()]
        some = reachable_address(addresses[0], peer.local) if addresses else None
        return make_answer(request, body=encode_topic_list(names, broker_address=some))

    def wipe_write(self, peer: Peer, request: Command) -> Command:
        count = self._routes.wipe_write(read_text(request.fields, "brokerName"))
        return make_answer(request, fields={"wipeTopicCount": str(count)})

    def restore_write(self, peer: Peer, request: Command) -> Command:
        count = self._routes.restore_write(read_text(request.fields, "brokerName"))
        return make_answer(request, fields={"addTopicCount": str(count)})

    def delete(self, peer: Peer, request: Command) -> Command:
        self._routes.delete_topic(read_text(request.fields, "topic"), cluster=request.fields.get("clusterName") or None)
        return make_answer(request)

    def register(self, peer: Peer, request: Command) -> Command:
        """Take the queues of one topic. Raises IllegalField or IllegalTopic, and changes nothing."""
        topic = read_text(request.fields, "topic")
        check_topic(topic)
        try:
            route = decode_route(request.data)
        except CorruptRecord as error:
            raise IllegalField("body", error.reason) from error
        self._routes.register_topic(topic, route.queues)
        return make_answer(request)

    def _list_by(self, accept: Callable[[int], bool]) -> Handler:
        def list_some(peer: Peer, request: Command) -> Command:
            self._check_lists()
            return _answer(request, self._routes.topics_with(accept))

        return list_some

    def _check_lists(self) -> None:
        if not self._settings.current.topic_lists:
            raise NotPermitted("lists of topics are switched off (topic_lists)")


def _answer(request: Command, topics: Iterable[str]) -> Command:
    return make_answer(request, body=encode_topic_list(topics))
