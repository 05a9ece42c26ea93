"""Servers as an operator starts them: with RocketMQ's files, where they are told to, no heavier than promised."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from embermq import AsyncClient, Client
from embermq.errors import TopicNotFound
from embermq.kernels import loading
from embermq.model.codes import RequestCode
from tests.builders import wait_until
from tests.crash.served import ServerProcess
from tests.e2e.conftest import SOURCE, Served, serving
from tests.e2e.line import Line
from tests.free_ports import LOCAL, free_address, free_port

ELSEWHERE = "127.0.0.2"  # this machine, too, by another address
PLAIN_MIB, ENGINE_MIB = 80, 150
ENGINE_TIMEOUT_S = 180.0  # it may have to be compiled

# conf/broker.conf as RocketMQ 5.3.3 comes with it, and what its documentation adds first.
BROKER_CONF = """
# Licensed to the Apache Software Foundation (ASF) under one or more
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""


def run_ember(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "embermq", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=False,
    )


def events(log: Path) -> list[dict[str, Any]]:
    """Every line that a server wrote, each of which must be one."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def resident_mib(process_id: int) -> float:
    text = Path(f"/proc/{process_id}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None, text
    return int(found[1]) / 1024


def addresses_told(namesrv: str, topic: str) -> dict[str, str]:
    """The addresses of the broker that has a topic, by their ids, as a client is told them."""
    with Line(namesrv) as line:
        answer = line.ask(RequestCode.GET_ROUTE_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"})
    (broker,) = json.loads(answer.data)["brokerDatas"]
    found: dict[str, str] = broker["brokerAddrs"]
    return found


def ids_of(mq: Client, topic: str) -> list[str]:
    try:
        return [message.message_id for message in mq.read(topic)]
    except TopicNotFound:
        return []


def test_rocketmqs_files_start_both_servers_as_they_are(tmp_path: Path) -> None:
    names, port = free_port(), free_port()
    (tmp_path / "namesrv.conf").write_text(f"listenPort={names}\n")
    own = f"listenPort={port}\nstorePathRootDir={tmp_path}/store\nsendMessageThreadPoolNums=16\n"
    (tmp_path / "broker.conf").write_text(BROKER_CONF + own)
    with (
        ServerProcess(tmp_path, "namesrv", "-c", "namesrv.conf") as name_server,
        ServerProcess(tmp_path, "broker", "-c", "broker.conf", "-n", f"{LOCAL}:{names}") as broker,
    ):
        with Client(f"{LOCAL}:{names}", timeout=20) as mq:
            wait_until(lambda: any(event["event"] == "registered" for event in events(broker.log)))
            sent = mq.send("orders", b"hello")
            wait_until(lambda: ids_of(mq, "orders") == [sent.message_id])  # once the name server knows the topic
        assert (broker.stop(), name_server.stop()) == (0, 0)
    assert [path.name for path in (tmp_path / "store" / "commitlog").iterdir()] == ["0" * 20]
    (warning,) = [event for event in events(broker.log) if event["level"] == "WARNING" and "names" in event]
    assert warning["names"] == "sendMessageThreadPoolNums"


def test_a_name_server_goes_on_with_the_values_of_rocketmqs(tmp_path: Path) -> None:
    values, names = tmp_path / "elsewhere" / "kvConfig.json", free_port()
    values.parent.mkdir()
    values.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4"}}}')
    (tmp_path / "namesrv.conf").write_text(f"listenPort={names}\nkvConfigPath={values}\n")
    with ServerProcess(tmp_path, "namesrv", "-c", "namesrv.conf"), Line(f"{LOCAL}:{names}") as line:
        key = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders"}
        assert line.ask(RequestCode.GET_KV_CONFIG, key).fields["value"] == "broker-a:4"
        line.ask(RequestCode.PUT_KV_CONFIG, key | {"key": "letters", "value": "broker-a:2"})
    kept = json.loads(values.read_text())["configTable"]["ORDER_TOPIC_CONFIG"]
    assert kept == {"orders": "broker-a:4", "letters": "broker-a:2"}


def test_settings_are_printed_as_the_file_has_them(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(BROKER_CONF)
    done = run_ember("broker", "-c", "broker.conf", "-p", folder=tmp_path)
    printed = dict(line.split("=", 1) for line in done.stdout.splitlines())
    wanted = dict(map(str.strip, line.split("=")) for line in BROKER_CONF.splitlines() if "=" in line)
    assert (done.returncode, done.stderr) == (0, "")
    assert {name: printed[name] for name in wanted} == wanted
    (tmp_path / "namesrv.conf").write_text("listenPort=9999\n")
    assert "listenPort=9999\n" in run_ember("namesrv", "-c", "namesrv.conf", "-p", folder=tmp_path).stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker.conf", "namesrv.conf"]


@pytest.mark.parametrize(
    ("line", "word"),
    [("brokerNam = x", "did you mean brokerName?"), ("listenPort = x", "a whole number"), ("\\u00zz = 1", "")],
)
def test_a_file_that_cannot_be_is_told_with_its_name(tmp_path: Path, line: str, word: str) -> None:
    (tmp_path / "broker.conf").write_text(BROKER_CONF + line)
    done = run_ember("broker", "-c", "broker.conf", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ember: broker.conf") and word in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_public_address_needs_credentials_or_a_word(tmp_path: Path) -> None:
    public = ("--listen", "0.0.0.0:0", "--namesrv-listen", free_address())
    done = run_ember("serve", "--data", "data", *public, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--access" in done.stderr and "--insecure-public" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_clients_are_told_the_address_they_came_in_on(tmp_path: Path) -> None:
    port, names = free_port(), free_port()
    everywhere = {"listen": f"0.0.0.0:{port}", "namesrv_listen": f"0.0.0.0:{names}"}
    with serving(tmp_path, "--insecure-public", **everywhere):
        for address in (LOCAL, ELSEWHERE):
            with Client(f"{address}:{names}") as mq:
                receipt = mq.send("orders", address.encode())
            assert addresses_told(f"{address}:{names}", "orders") == {"0": f"{address}:{port}"}
            assert bytes.fromhex(receipt.message_id[:8]) == bytes(map(int, address.split(".")))


def test_clients_are_told_the_address_that_was_set(tmp_path: Path) -> None:
    (tmp_path / "ember.toml").write_text(f'[server]\nadvertise = "{ELSEWHERE}"\n')
    port = free_port()
    everywhere = {"listen": f"0.0.0.0:{port}", "namesrv_listen": free_address()}
    with serving(tmp_path, "--insecure-public", "-c", str(tmp_path / "ember.toml"), **everywhere) as served:
        assert addresses_told(served.namesrv, "TBW102") == {"0": f"{ELSEWHERE}:{port}"}
        with Client(served.namesrv) as mq:
            mq.send("orders", b"found by the address that was set")


def http_address(served: Served) -> str:
    (address,) = [event["address"] for event in events(served.log) if event["event"] == "figures and health served"]
    assert isinstance(address, str)
    return address


def ask_http(served: Served, path: str) -> str:
    with urllib.request.urlopen(f"http://{http_address(served)}{path}", timeout=20) as answer:
        text: str = answer.read().decode()
    return text


def figure(served: Served, name: str, **labels: str) -> float:
    """The sum of all series with these labels."""
    wanted = set(labels.items())
    families = text_string_to_metric_families(ask_http(served, "/metrics"))
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if wanted <= set(sample.labels.items()))


def test_health_is_told_on_loopback(ember: Served) -> None:
    assert http_address(ember).startswith(f"{LOCAL}:")
    health = json.loads(ask_http(ember, "/healthz"))
    assert (health["ready"], health["writable"], health["refusal"]) == (True, True, None)


async def send_at_once(namesrv: str, topic: str, count: int) -> None:
    async with AsyncClient(namesrv) as mq:
        await asyncio.gather(*(mq.send(topic, b"%d" % number) for number in range(count)))


def test_every_send_is_counted_once(ember: Served) -> None:
    request = {"request_code": "send_message_v2", "response_code": "success"}
    before = figure(ember, "rocketmq_rpc_latency_count", **request)
    asyncio.run(send_at_once(ember.namesrv, "figures", 40))
    assert figure(ember, "rocketmq_messages_in_total", topic="figures") == 40
    assert figure(ember, "rocketmq_rpc_latency_count", **request) == before + 40


@pytest.mark.parametrize("engine", ["off", "on"])
def test_a_server_with_nothing_to_do_is_small(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "on" and not loading.is_installed():
        pytest.skip("the engine is not installed")
    monkeypatch.setenv("EMBERMQ_ENGINE", engine)
    with serving(tmp_path, durability="sync") as served:
        wait_until(lambda: f"engine {engine}" in served.log.read_text(), seconds=ENGINE_TIMEOUT_S)
        limit = ENGINE_MIB if engine == "on" else PLAIN_MIB
        # What loading the engine needed goes back to the system a moment later.
        wait_until(lambda: resident_mib(served.process.pid) < limit, seconds=20)
