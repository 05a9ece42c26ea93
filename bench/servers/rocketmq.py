"""RocketMQ's own broker, with the jars that the compatibility tests use, in either way of flushing."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.servers.remoting import make_topics
from bench.servers.server import Server, all_cores, free_port, launch, wait_for
from tests.compat.store_tool import class_path

JVM = (
    *("-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=1g"),
    *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED"),
)


def start_rocketmq(flush: str) -> Callable[[Path], Server]:
    def start(folder: Path) -> Server:
        port = free_port()
        settings = {
            **{"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": 0},
            **{"brokerIP1": "127.0.0.1", "listenPort": port, "haListenPort": free_port()},
            **{"storePathRootDir": folder / "store", "flushDiskType": flush, "diskMaxUsedSpaceRatio": 95},
            "waitTimeMillsInSendQueue": 10_000,  # not 200 ms, after which it refuses all until it is warm
            **{"maxTransferCountOnMessageInMemory": 1000, "maxTransferBytesOnMessageInMemory": 4 << 20},  # of a pull
        }
        (folder / "conf").mkdir()
        (folder / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = ["java", *JVM, f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}", "-cp", class_path()]
        command += ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(folder / "broker.conf")]
        process = launch(command, folder, cores=all_cores(), env={"ROCKETMQ_HOME": str(folder)})
        wait_for(port, process, folder)
        return Server("rocketmq", port, process, folder, partial(_make_topic, port), has_batches=True)

    return start


def version() -> str:
    jars = Path(class_path().rpartition(":")[2]).parent
    found = (re.search(r"rocketmq-broker-(.+)\.jar", path.name) for path in jars.iterdir())
    return "RocketMQ " + next((match[1] for match in found if match), "?")


def _make_topic(port: int, name: str, queues: int) -> None:
    make_topics(port, [name], queues)
