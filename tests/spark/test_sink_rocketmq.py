"""Writing to EmberMQ's broker and to RocketMQ's own: RocketMQ's client reads what Spark wrote."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from embermq import Client
from tests.builders import wait_until
from tests.compat.client_tool import Clients, ClientTool, text, texts
from tests.compat.cluster import Cluster, running_cluster
from tests.compat.store_tool import class_path, missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 300
pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def java_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientTool]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    tool = ClientTool(class_path(), tmp_path_factory.mktemp("clients-home"))
    yield tool
    tool.close()


@pytest.fixture(scope="module", params=["ember", "rocketmq"])
def cluster(
    request: pytest.FixtureRequest, java_clients: ClientTool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp(request.param), target=request.param) as cluster:
        yield cluster


@pytest.fixture
def clients(java_clients: ClientTool, cluster: Cluster) -> Iterator[Clients]:
    with Clients(java_clients, cluster.namesrv) as clients:
        admin = clients.admin()
        # A broker listens a moment before it has registered.
        wait_until(lambda: admin.call("examineBrokerClusterInfo")["brokerAddrTable"], seconds=60)
        yield clients


def write(df: DataFrame, cluster: Cluster, topic: str) -> None:
    writer = df.write.format("rocketmq").option("namesrv", cluster.namesrv).option("topic", topic)
    writer.mode("append").save()


def test_rocketmqs_client_reads_what_spark_wrote(spark: SparkSession, cluster: Cluster, clients: Clients) -> None:
    columns = "cast(id as string) body", "concat('t', id % 3) tags", "concat('k', id) keys", "map('n', 'v') properties"
    write(spark.range(ROWS).selectExpr(*columns), cluster, "FromSpark")
    got = clients.lite("readers", {"FromSpark": "*"}).poll(ROWS, seconds=60)
    assert Counter(texts(got)) == Counter(map(str, range(ROWS)))
    for message in got:
        number, properties = int(text(message)), message["properties"]
        assert (properties["TAGS"], properties["KEYS"], properties["n"]) == (f"t{number % 3}", f"k{number}", "v")


def test_a_sharding_key_has_the_queue_that_rocketmqs_client_gives_it(
    spark: SparkSession, cluster: Cluster, clients: Clients
) -> None:
    keys = [f"customer-{number}" for number in range(40)]
    producer = clients.producer()
    sent = producer.send_ok(*({"topic": "Sharded", "body": key, "shard": key} for key in keys))
    write(spark.createDataFrame([(key, key) for key in keys], "body string, shardingKey string"), cluster, "Sharded")
    with Client(cluster.namesrv, timeout=20) as mq:
        found = [(message.body.decode(), message.queue) for message in mq.read("Sharded")]
    assert Counter(found) == Counter({(key, each["queueId"]): 2 for key, each in zip(keys, sent, strict=True)})


def test_a_row_is_delivered_when_it_is_time(spark: SparkSession, cluster: Cluster, clients: Clients) -> None:
    df = spark.sql("select 'later' as body, current_timestamp() + interval 3 seconds as deliverAt")
    before = time.time()
    write(df, cluster, "Later")
    assert texts(clients.lite("readers", {"Later": "*"}).poll(1, seconds=30)) == ["later"]
    assert time.time() - before > 2
