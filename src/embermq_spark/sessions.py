"""Spark sessions with the settings that matter here, and the format `rocketmq` in sessions made elsewhere."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from embermq_spark.compat import check_version
from embermq_spark.source import RocketMQSource

_LOOPBACK: Final = re.compile(r"spark://(127\.0\.0\.1|localhost):\d+")  # a cluster that no other machine is part of
SMALL_MACHINE: Final = 2  # cores; up to so many, one thread collects garbage soonest

# What can be set at any time, also through Spark Connect.
RUNTIME_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.python.filterPushdown.enabled": "true",  # filters reach the source and spare it files and queues
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # not INT96, which other readers gave up
}
# What must be set before the JVM starts.
STARTING_SETTINGS: Final[Mapping[str, str]] = {
    "spark.python.daemon.module": "embermq_spark.daemon",  # workers begin with everything imported
    # Over TCP, Spark's small writes wait for an acknowledgement that the system holds back: 40 ms a task.
    "spark.python.unix.domain.socket.enabled": "true",
}


def session(
    app: str, *, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session for this application, or the one that runs already, with `settings` on top of ours.

    `master` is `local[*]` unless it or `remote`, the address of a Spark Connect server (`sc://host:port`), is given.
    """
    check_version()
    if remote is not None and master is not None:
        raise ValueError("a session has a master or a remote address, not both")
    builder = SparkSession.builder.appName(app)
    if remote is not None:
        builder = builder.remote(remote)
        ours = dict(RUNTIME_SETTINGS)
    else:
        builder = builder.master(master or "local[*]")
        ours = {**RUNTIME_SETTINGS, **STARTING_SETTINGS, **_local_settings(master or "local[*]")}
    for name, value in {**ours, **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def register(spark: SparkSession) -> None:
    """Add the format `rocketmq` to a session, for those whose Spark does not find it by itself."""
    check_version()
    spark.dataSource.register(RocketMQSource)


def _local_settings(master: str) -> dict[str, str]:
    """For a Spark that runs in this machine alone: the same Python, the loopback address, a collector that fits."""
    if not master.startswith("local") and _LOOPBACK.fullmatch(master) is None:
        return {}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark has no setting that its planners look at
    found = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if (os.cpu_count() or 1) <= SMALL_MACHINE:
        found["spark.driver.extraJavaOptions"] = "-XX:+UseSerialGC"
    return found
