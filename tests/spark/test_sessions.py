"""Sessions, discovery and Spark Connect."""

from __future__ import annotations

import subprocess
import sys
from ast import literal_eval
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import Served
from tests.spark.golden_rows import GoldenStores
from tests.spark.served import bodies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTED = """
import sys, embermq_spark
spark = embermq_spark.session("connected", remote=sys.argv[1])
try:
    spark.read.format("rocketmq").option("path", "x").option("colums", "body").load().schema
except Exception as error:
    print(error)
store, output = sys.argv[3:]
counts = spark.read.format("rocketmq").load(store).groupBy("topic").count().collect()
print({row["topic"]: row["count"] for row in counts})
stream = spark.readStream.format("rocketmq").option("subscribe", "TopicAlpha,TopicBeta").load(store).writeStream
stream = stream.format("parquet").option("checkpointLocation", output + "/marks").trigger(availableNow=True)
stream.start(output + "/rows").awaitTermination()
print(spark.read.parquet(output + "/rows").select("topic", "queueId", "queueOffset").distinct().count())
embermq_spark.register(spark)
written = spark.range(3).selectExpr("cast(id as string) as body").write.format("rocketmq").option("topic", "connected")
written.option("namesrv", sys.argv[2]).mode("append").save()
print(spark.conf.get("spark.sql.python.filterPushdown.enabled"), spark.range(3).count())
"""


def test_spark_finds_the_format_by_itself(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="no option 'subscribee' when reading; did you mean subscribe"):
        spark.read.format("rocketmq").option("path", "x").option("subscribee", "orders").load()


def test_a_session_has_the_settings_that_matter(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"
    assert spark.conf.get("spark.python.daemon.module") == "embermq_spark.daemon"


def test_workers_are_spoken_with_over_sockets_of_the_file_system(spark: SparkSession) -> None:
    def find_families(_: int) -> set[str]:
        import os
        import socket

        found = set()
        for descriptor in os.listdir("/proc/self/fd"):
            try:
                found.add(socket.socket(fileno=os.dup(int(descriptor))).family.name)
            except OSError:  # no socket
                continue
        return found

    assert spark.sparkContext.parallelize([0], 1).map(find_families).first() == {"AF_UNIX"}


def test_workers_are_forked_from_a_daemon_that_has_everything_imported(spark: SparkSession) -> None:
    def look(_: int) -> tuple[int, bool]:
        import gc

        return gc.get_freeze_count(), "embermq_spark.source" in sys.modules

    frozen, has_source = spark.sparkContext.parallelize([0], 1).map(look).first()
    assert frozen > 10_000
    assert has_source


def test_the_format_can_be_registered_in_a_session_made_elsewhere(spark: SparkSession) -> None:
    import embermq_spark

    other = spark.newSession()
    embermq_spark.register(other)
    with pytest.raises(Exception, match="one of them is wanted"):
        other.read.format("rocketmq").load()


def test_a_temporary_view_takes_the_same_options(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="no option 'pth' when reading; did you mean path"):
        spark.sql("CREATE TEMPORARY VIEW broken USING rocketmq OPTIONS (pth 'x')")


def test_spark_connect_finds_the_format_reads_streams_and_writes(
    connect_address: str, stores: GoldenStores, ember: Served, tmp_path: Path
) -> None:
    """In a process of its own: a client of Spark Connect has no JVM."""
    command = [sys.executable, "-W", "ignore", "-c", CONNECTED, connect_address, ember.namesrv]
    command += [str(stores.paths["basic"]), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "no option 'colums' when reading; did you mean columns?" in done.stdout
    *_, counts, streamed, last = done.stdout.splitlines()
    expected = Counter(facts["topic"] for place, facts in stores.records.items() if place[0] == "basic")
    assert literal_eval(counts) == expected
    assert int(streamed) == expected["TopicAlpha"] + expected["TopicBeta"]
    assert last == "true 3"
    assert bodies(ember, "connected") == Counter([b"0", b"1", b"2"])


def test_a_session_has_a_master_or_a_remote_address() -> None:
    import embermq_spark

    with pytest.raises(ValueError, match="not both"):
        embermq_spark.session("app", master="local", remote="sc://127.0.0.1:1")


def test_a_spark_without_what_streams_need_is_refused() -> None:
    from embermq_spark.compat import check_version

    check_version("4.1.0")
    with pytest.raises(Exception, match=r"PySpark 4.0.1 is too old, 4.1 or newer is wanted"):
        check_version("4.0.1")
