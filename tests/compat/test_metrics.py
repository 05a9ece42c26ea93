"""EmberMQ's figures beside RocketMQ's own: the same names with the same labels, for the same work."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.builders import wait_until
from tests.compat.client_tool import Clients, ClientTool
from tests.compat.cluster import Cluster, ember_process, rocketmq_process
from tests.compat.scene import Scene
from tests.free_ports import LOCAL, free_port

Labels = dict[str, set[str]]  # names of labels by the name of a figure

# What RocketMQ counts that there is nothing of here, or not yet.
ABSENT = re.compile(
    r"rocketmq_(pop|timer|timing|rocksdb|tiered|remoting|delay|half|finish|commit|rollback)_.*|target_.*|otel_.*"
)
# Labels that are left out, with the reason.
LEFT_OUT = {
    "message_type": "messages are counted by topic and queue, whatever their kind",
    "aggregation": "figures are totals here; there are no others",
}


def read_labels(port: int) -> Labels:
    """Every figure that is told, with the names of its labels; nothing while nobody tells any."""
    try:
        with urllib.request.urlopen(f"http://{LOCAL}:{port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
    except urllib.error.URLError:
        return {}
    found: Labels = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@contextmanager
def working(tool: ClientTool, cluster: Cluster) -> Iterator[None]:
    """Topics and groups are made, messages sent, consumed, given back and given up; the clients stay meanwhile."""
    with Clients(tool, cluster.namesrv) as outer:
        admin = outer.admin()
        wait_until(lambda: admin.call("examineBrokerClusterInfo")["brokerAddrTable"], seconds=60)
        with Scene(tool, cluster, admin) as scene:
            topic, group = scene.topic(2), scene.group()
            scene.save_group(group)
            producer = scene.producer()
            producer.send_ok(*scene.messages(topic, range(10)))
            consumer = scene.push(group, {topic: "*"}, listener={"fail": 99, "delayLevel": -1})
            assert len(consumer.deliveries(10)) >= 10
            assert scene.dead_letters(group)
            yield


@pytest.fixture(scope="module")
def theirs(client_tool: ClientTool, tmp_path_factory: pytest.TempPathFactory) -> Labels:
    port = free_port()
    told = {"metricsExporterType": "PROM", "metricsPromExporterPort": port, "metricsPromExporterHost": LOCAL}
    with rocketmq_process(tmp_path_factory.mktemp("rocketmq"), **told) as cluster, working(client_tool, cluster):
        wait_until(lambda: "rocketmq_send_to_dlq_messages_total" in read_labels(port), seconds=40)
        return read_labels(port)


@pytest.fixture(scope="module")
def ours(client_tool: ClientTool, tmp_path_factory: pytest.TempPathFactory) -> Labels:
    home, port = tmp_path_factory.mktemp("ember"), free_port()
    (home / "ember.toml").write_text(f"[server]\nhttp_port = {port}\n")
    with ember_process(home, "-c", str(home / "ember.toml")) as (cluster, _), working(client_tool, cluster):
        return read_labels(port)


def test_every_figure_of_rocketmq_is_told(theirs: Labels, ours: Labels) -> None:
    wanted = {name for name in theirs if not ABSENT.fullmatch(name)}
    assert len(wanted) > 25
    assert wanted - ours.keys() == set()


def test_they_have_the_same_labels(theirs: Labels, ours: Labels) -> None:
    common = theirs.keys() & ours.keys()
    missing = {name: theirs[name] - ours[name] - LEFT_OUT.keys() for name in common}
    assert {name: labels for name, labels in missing.items() if labels} == {}
