"""EmberMQ's figures beside RocketMQ's own: the same names with the same labels, for the same work."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from embermq.model.codes import RequestCode, ResponseCode
from embermq.server.code_names import answer_name, request_name
from tests.builders import wait_until
from tests.compat.client_tool import Clients, ClientTool
from tests.compat.cluster import Cluster, ember_process, rocketmq_process
from tests.compat.scene import Scene
from tests.free_ports import LOCAL, free_port

Figures = dict[str, dict[str, set[str]]]  # the values of each label of each name

# What RocketMQ tells that is otherwise here, or not at all: its library's own, POP's buffers, the wheel of timers.
ABSENT = re.compile(r"(target|otel|rocketmq_pop|rocketmq_timer|rocketmq_timing|rocketmq_rocksdb)_.*")
# Labels that are left out, with the reason.
LEFT_OUT = {
    "otel_scope_name": "names RocketMQ's library",
    "message_type": "messages are counted by topic and queue, whatever their kind",
}
# Figures that are for all topics together.
WHOLE = ("rocketmq_message_size", "rocketmq_topic_create_execution_time")
# Labels whose values follow from the work.
SAME_VALUES = ("language", "version", "protocol_type", "consume_mode", "is_system", "invocation_status")
LAST_TOLD = ("rocketmq_send_to_dlq_messages_total", "rocketmq_consumer_lag_messages")


def read_figures(port: int) -> Figures:
    """All that is told; nothing while nobody tells anything."""
    try:
        with urllib.request.urlopen(f"http://{LOCAL}:{port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
    except urllib.error.URLError:
        return {}
    found: Figures = {}
    for sample in (each for family in text_string_to_metric_families(text) for each in family.samples):
        labels = found.setdefault(sample.name, {})
        for name, value in sample.labels.items():
            labels.setdefault(name, set()).add(value)
    return found


@contextmanager
def working(tool: ClientTool, cluster: Cluster) -> Iterator[None]:
    """Topics and groups are made, messages sent, consumed and given up; the clients stay meanwhile."""
    with Clients(tool, cluster.namesrv) as outer:
        admin = outer.admin()
        wait_until(lambda: admin.call("examineBrokerClusterInfo")["brokerAddrTable"], seconds=60)
        with Scene(tool, cluster, admin) as scene:
            topic, group = scene.topic(2), scene.group()
            scene.save_group(group)
            scene.producer().send_ok(*scene.messages(topic, range(10)))
            gives_up = {"fail": 99, "delayLevel": -1}
            consumer = scene.push(group, {topic: "*"}, listener=gives_up, persistConsumerOffsetInterval=500)
            assert len(consumer.deliveries(10)) >= 10
            assert scene.dead_letters(group)
            yield


def figures_of(tool: ClientTool, cluster: Cluster, port: int) -> Figures:
    with working(tool, cluster):
        wait_until(lambda: read_figures(port).keys() >= set(LAST_TOLD), seconds=40, show=lambda: read_figures(port))
        return read_figures(port)


@pytest.fixture(scope="module")
def theirs(client_tool: ClientTool, tmp_path_factory: pytest.TempPathFactory) -> Figures:
    port = free_port()
    told = {"metricsExporterType": "PROM", "metricsPromExporterPort": port, "metricsPromExporterHost": LOCAL}
    with rocketmq_process(tmp_path_factory.mktemp("rocketmq"), **told) as cluster:
        return figures_of(client_tool, cluster, port)


@pytest.fixture(scope="module")
def ours(client_tool: ClientTool, tmp_path_factory: pytest.TempPathFactory) -> Figures:
    home, port = tmp_path_factory.mktemp("ember"), free_port()
    (home / "ember.toml").write_text(f"[server]\nhttp_port = {port}\n")
    with ember_process(home, "-c", str(home / "ember.toml")) as (cluster, _):
        return figures_of(client_tool, cluster, port)


def test_every_figure_of_rocketmq_is_told(theirs: Figures, ours: Figures) -> None:
    wanted = {name for name in theirs if not ABSENT.fullmatch(name)}
    assert len(wanted) > 25
    assert sorted(wanted - ours.keys()) == []


def test_they_have_the_same_labels(theirs: Figures, ours: Figures) -> None:
    common = [name for name in theirs.keys() & ours.keys() if not ABSENT.fullmatch(name)]
    missing = {name: theirs[name].keys() - ours[name].keys() - LEFT_OUT.keys() for name in common}
    assert {name: labels for name, labels in missing.items() if labels and not name.startswith(WHOLE)} == {}


def test_labels_that_follow_from_the_work_have_the_same_values(theirs: Figures, ours: Figures) -> None:
    pairs = [(name, label) for name in sorted(theirs.keys() & ours.keys()) for label in SAME_VALUES]
    common = [(name, label) for name, label in pairs if label in theirs[name] and label in ours[name]]
    assert len(common) > 10
    different = {pair: (theirs[pair[0]][pair[1]], ours[pair[0]][pair[1]]) for pair in common}
    assert {pair: both for pair, both in different.items() if not both[0] <= both[1]} == {}


def test_requests_and_answers_have_the_same_names(theirs: Figures) -> None:
    labels = theirs["rocketmq_rpc_latency_milliseconds_count"]
    assert len(labels["request_code"]) > 5
    assert sorted(labels["request_code"] - {request_name(code) for code in RequestCode}) == []
    assert sorted(labels["response_code"] - {answer_name(code) for code in ResponseCode}) == []
