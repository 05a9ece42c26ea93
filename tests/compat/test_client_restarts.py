"""RocketMQ's clients over a restart of EmberMQ: what was accepted arrives, and they go on by themselves."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Clients, ClientTool
from tests.compat.cluster import ember_process
from tests.compat.scene import Scene
from tests.compat.sending import sending


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_restart(client_tool: ClientTool, tmp_path: Path, how: signal.Signals) -> None:
    with ember_process(tmp_path) as (cluster, process):
        admin = Clients(client_tool, cluster.namesrv).admin()
        scene = Scene(client_tool, cluster, admin)
        topic, group = scene.topic(4), scene.group()
        consumer = scene.push(group, {topic: "*"}, persistConsumerOffsetInterval=200)
        with sending(scene, scene.producer(), topic) as accepted:
            wait_until(lambda: len(consumer.deliveries()) > 50)
            process.send_signal(how)
            process.wait(30)
            before = len(accepted)
            with ember_process(tmp_path, broker=cluster.broker, namesrv=cluster.namesrv):
                wait_until(lambda: len(accepted) > before + 50, seconds=40)
                wait_until(lambda: set(accepted[: before + 50]) <= set(consumer.bodies()), seconds=60)
                wait_until(lambda: scene.members(group) == {consumer.client_id}, seconds=40)
        with scene:
            admin.close(wait=False)
