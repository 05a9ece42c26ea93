"""What RocketMQ's name server was asked and answered, asked of ours: the answers are the same, byte for byte.

The recorder joined in when brokers were registered already, and it left some registrations out. What an answer
shows of a broker, a topic or a value that no recorded request has spoken of before is told to our name server
first; whatever the recorded requests say, they alone say.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from embermq.format.cluster_body import decode_clusters, decode_topic_list, encode_clusters, encode_topic_list
from embermq.format.command import Command, decode_command
from embermq.format.frame import FrameLimits, split_frames
from embermq.format.java_properties import decode_properties
from embermq.format.registration_body import (
    Registration,
    body_checksum,
    decode_registration,
    encode_compressed,
    encode_registration,
)
from embermq.format.route_body import decode_route, encode_route
from embermq.format.tables import TopicTable
from embermq.model.codes import RequestCode
from embermq.model.route import RoutedBroker, RoutedQueues, TopicRoute
from embermq.model.version import DataVersion
from embermq.nameserver.nameserver import NameServer
from embermq.nameserver.routes import Registrant
from tests.unit.nameserver.asking import Caller, ask, ask_all

WIRE = Path(__file__).parent / "data" / "wire"
NO_TOPICS = TopicTable(DataVersion(), {})

# RocketMQ's own name server refuses what its own broker sends there; a test below shows that ours takes it.
DEFECT = "broker-register-compressed"


class Exchange(NamedTuple):
    request: Command
    answer: Command


def frames_of(name: str) -> Iterator[dict[str, Any]]:
    for line in (WIRE / f"{name}.jsonl").read_text().splitlines():
        frame = json.loads(line)
        if frame.get("peer") == "namesrv":
            yield frame


def command_of(frame: dict[str, Any]) -> Command:
    (cut,), _ = split_frames(bytes.fromhex(frame["frame_hex"]), FrameLimits())
    return decode_command(cut)


def exchanges_of(name: str) -> list[Exchange]:
    """Requests with their answers, in the order of the requests; those that lost their partner aside."""
    waiting: dict[tuple[int, int], Command] = {}
    answers: dict[tuple[int, int], Command] = {}
    for frame in frames_of(name):
        kept = answers if frame["kind"] == "response" else waiting
        kept[frame["conn"], frame["opaque"]] = command_of(frame)
    return [Exchange(request, answers[key]) for key, request in waiting.items() if key in answers]


NAMES = [path.stem for path in sorted(WIRE.glob("*.jsonl")) if exchanges_of(path.stem)]


class Replay:
    """A name server that knows what the recorded one knew, as far as its answers show it."""

    def __init__(self) -> None:
        self.name_server = NameServer()
        self._caller = Caller()
        self._spoken_of: set[object] = set()  # by recorded requests

    def ask(self, request: Command, recorded: Command) -> Command:
        self._prepare(request, recorded)
        (answer,) = ask_all(self.name_server, self._caller, request)
        return answer

    def _prepare(self, request: Command, recorded: Command) -> None:
        fields = request.fields
        match request.code:
            case RequestCode.REGISTER_BROKER:
                if address := recorded.fields.get("masterAddr"):
                    ha_address = recorded.fields["haServerAddr"]
                    self._tell_broker(fields["clusterName"], fields["brokerName"], 0, address, ha_address=ha_address)
                registration = decode_registration(request.data, version=request.version)
                self._spoken_of |= {(fields["brokerName"], fields["brokerId"]), *registration.topics.topics}
            case RequestCode.UNREGISTER_BROKER:
                broker_id = int(fields["brokerId"])
                self._tell_broker(fields["clusterName"], fields["brokerName"], broker_id, fields["brokerAddr"])
                self._spoken_of.add((fields["brokerName"], fields["brokerId"]))
            case RequestCode.GET_BROKER_CLUSTER_INFO:
                self._tell_brokers(decode_clusters(recorded.data).brokers.values())
            case RequestCode.GET_ROUTE_BY_TOPIC if recorded.code == 0:
                self._tell_route(fields["topic"], decode_route(recorded.data))
            case RequestCode.GET_ALL_TOPICS_FROM_NAMESERVER:
                self._tell_topics(decode_topic_list(recorded.data))
            case RequestCode.WIPE_WRITE_PERM | RequestCode.ADD_WRITE_PERM:
                listed = exchanges_of("mqadmin-topicList")[0].answer  # of the same session
                self._tell_topics(decode_topic_list(listed.data))
            case RequestCode.GET_KV_CONFIG if recorded.code == 0:
                key = fields["namespace"], fields["key"]
                if key not in self._spoken_of:
                    self.name_server.key_values.put(*key, recorded.fields["value"])
            case RequestCode.PUT_KV_CONFIG | RequestCode.DELETE_KV_CONFIG:
                self._spoken_of.add((fields["namespace"], fields["key"]))

    def _tell_brokers(self, brokers: Iterable[RoutedBroker]) -> None:
        for broker in brokers:
            for broker_id, address in broker.addresses.items():
                self._tell_broker(broker.cluster, broker.name, broker_id, address)

    def _tell_broker(self, cluster: str, name: str, broker_id: int, address: str, *, ha_address: str = "") -> None:
        if (name, str(broker_id)) not in self._spoken_of:
            who = Registrant(cluster, name, broker_id, address, ha_address, timeout_ms=120_000)
            self.name_server.routes.register(who, Registration(NO_TOPICS), peer=self._caller)

    def _tell_route(self, topic: str, route: TopicRoute) -> None:
        self._tell_brokers(route.brokers)
        if topic not in self._spoken_of:
            self.name_server.routes.register_topic(topic, route.queues)

    def _tell_topics(self, topics: Iterable[str]) -> None:
        self._tell_broker("DefaultCluster", "broker-a", 0, "127.0.0.2:20931")
        for topic in topics:
            self.name_server.routes.register_topic(topic, [RoutedQueues("broker-a", 1, 1, 6)])


def facts_of(request: Command, answer: Command) -> tuple[object, ...]:
    """What must be the same. The order of a list of topics is that of a hash table; remarks are in our words."""
    body = answer.data
    if request.code == RequestCode.GET_ALL_TOPICS_FROM_NAMESERVER:
        body = encode_topic_list(sorted(decode_topic_list(body)))
    return answer.code, answer.opaque, answer.flag, dict(answer.fields), bool(answer.remark), body


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (DEFECT, "mqadmin-getNamesrvConfig")])
def test_recorded_requests_get_the_recorded_answers(name: str) -> None:
    replay = Replay()
    for request, recorded in exchanges_of(name):
        answer = replay.ask(request, recorded)
        assert facts_of(request, answer) == facts_of(request, recorded), f"{request} in {name}"


def test_most_requests_that_a_name_server_knows_were_recorded() -> None:
    codes = {request.code for name in NAMES for request, _ in exchanges_of(name)}
    assert codes == {100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 319, 327}


def test_a_registration_whose_flag_denies_its_compression_is_taken() -> None:
    name_server = NameServer()
    (request, refused), *_ = exchanges_of(DEFECT)
    assert (request.fields["compressed"], request.data[:1], refused.code) == ("false", b"x", 1)
    (answer,) = ask_all(name_server, Caller(), request)
    assert answer.code == 0
    route = decode_route(ask(name_server, RequestCode.GET_ROUTE_BY_TOPIC, {"topic": "TBW102"}).data)
    (plain, _), *_ = exchanges_of("broker-register")
    told = decode_registration(plain.data, version=plain.version).topics.topics["TBW102"]
    (queues,) = route.queues
    assert (queues.read_queues, queues.write_queues, queues.permission) == (
        told.read_queues,
        told.write_queues,
        told.permission,
    )


def test_the_settings_have_the_values_that_rocketmq_begins_with() -> None:
    ((request, recorded),) = exchanges_of("mqadmin-getNamesrvConfig")
    (answer,) = ask_all(NameServer(), Caller(), request)
    ours, theirs = decode_properties(answer.data), decode_properties(recorded.data)
    assert len(ours) >= 9
    assert ours == {name: theirs[name] for name in ours}


@pytest.mark.parametrize("name", ["broker-register", DEFECT, "broker-register-compressed-flagged"])
def test_recorded_registrations_are_written_again_to_the_byte(name: str) -> None:
    for request, _ in exchanges_of(name):
        if request.code != RequestCode.REGISTER_BROKER:
            continue
        body = request.data
        registration = decode_registration(body, version=request.version)
        assert body_checksum(body) == int(request.fields["bodyCrc32"])
        if body.startswith(b"x"):
            assert zlib.decompress(encode_compressed(registration)) == zlib.decompress(body)
        else:
            # The time of a table of static topics, which ours does not have, is all that differs.
            of_mappings = re.compile(rb'"mappingDataVersion":\{[^}]*\}')
            ours = encode_registration(registration)
            assert of_mappings.sub(b"", ours) == of_mappings.sub(b"", body)


def test_recorded_routes_and_clusters_are_written_again_to_the_byte() -> None:
    seen = 0
    for name in NAMES:
        for request, answer in exchanges_of(name):
            if request.code == RequestCode.GET_ROUTE_BY_TOPIC and answer.code == 0:
                assert encode_route(decode_route(answer.data), standard=True) == answer.data
            elif request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
                assert encode_clusters(decode_clusters(answer.data)) == answer.data
            else:
                continue
            seen += 1
    assert seen > 200
