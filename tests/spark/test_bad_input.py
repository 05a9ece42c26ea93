"""What Spark shows of reads that cannot be: our own words, with the cause, the place and what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embermq import Message, open_store
from tests.spark.golden_rows import GoldenStores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fail(spark: SparkSession, path: object, schema: str | None = None, **options: str) -> str:
    """What the exception of a read says."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        reader = spark.read.format("rocketmq").options(**options)
        (reader.schema(schema) if schema else reader).load(str(path)).collect()
    return str(caught.value)


def test_a_path_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    assert f"no store at {tmp_path}/nowhere: no such directory" in fail(spark, tmp_path / "nowhere")


def test_a_path_that_is_no_store(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no store")
    assert f"no store at {tmp_path}: no commitlog/ is in it" in fail(spark, tmp_path)


def offsets(queue: str, offset: int, *, topic: str = "TopicAlpha", broker: str = "broker-a") -> str:
    return json.dumps({topic: {broker: {queue: offset}}})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribee": "x"}, "no option 'subscribee' when reading; did you mean subscribe?"),
        ({"startingOffsets": "{"}, "option startingOffsets is '{': earliest, latest, group or offsets such as"),
        (
            {"startingOffsets": offsets("0", 999)},
            "offset 999, which startingOffsets says, cannot be read: it has [0, 53)",
        ),
        ({"endingOffsets": offsets("0", 54)}, "offset 54, which endingOffsets says, cannot be read: it has [0, 53)"),
        ({"endingOffsets": offsets("9", 1)}, "names queue 9 of topic 'TopicAlpha', which has 0, 1, 2, 3 at broker-a"),
        ({"endingOffsets": offsets("0", 1, broker="b")}, "option endingOffsets names broker 'b'; there is broker-a"),
        (
            {"subscribe": "TopicBeta", "startingOffsets": offsets("0", 1)},
            "option startingOffsets names topic 'TopicAlpha', which other options leave out",
        ),
        (
            {"startingOffsets": offsets("0", 1, topic="TopicAlfa")},
            "no topic 'TopicAlfa'; the nearest name is 'TopicAlpha'",
        ),
        ({"startingOffsets": "latest"}, "latest (-1) leaves nothing to read in a batch"),
        ({"endingOffsets": offsets("0", -2)}, "earliest (-2) leaves nothing to read in a batch"),
        (
            {"startingOffsets": offsets("0", 9), "endingOffsets": offsets("0", 8)},
            "topic 'TopicAlpha', queue 0 of broker-a: startingOffsets says 9, behind 8, which endingOffsets says",
        ),
        ({"startingOffsets": "group", "group": "GID_none"}, "option group: 'GID_none' has read nothing yet"),
        ({"subscribe": "TopicAlfa"}, "no topic 'TopicAlfa'; the nearest name is 'TopicAlpha'"),
        ({"assign": '{"TopicAlpha": {"broker-a": [7]}}'}, "names queue 7 of topic 'TopicAlpha', which has 0, 1, 2, 3"),
        ({"filterExpression": "a > "}, "option filterExpression is 'a >'"),
        ({"columns": "queueOfset"}, "no column 'queueOfset'; did you mean queueOffset?"),
        ({"maxOffsetsPerTrigger": "5"}, "option maxOffsetsPerTrigger is for streams"),
        ({"brokerName": "a,b"}, "option brokerName has 2 names for 1 stores"),
        ({"schema": "body string"}, "column body is binary, not string; read it so and cast it afterwards"),
        ({"schema": "size int"}, "no column 'size'"),
    ],
)
def test_options_that_cannot_be(spark: SparkSession, stores: GoldenStores, options: dict[str, str], said: str) -> None:
    assert said in fail(spark, stores.paths["basic"], **options)


def test_two_stores_of_one_broker(spark: SparkSession, stores: GoldenStores) -> None:
    from pyspark.errors import PySparkException

    paths = [str(stores.paths[name]) for name in ("basic", "ipv6")]
    with pytest.raises(
        PySparkException, match="are both of broker 'broker-a'; give each a name with option brokerName"
    ):
        spark.read.format("rocketmq").load(paths).collect()


@pytest.fixture
def damaged(stores: GoldenStores, tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A store with one flipped byte in the middle of its log, and the position of the record that it is in."""
    path = tmp_path / "damaged"
    shutil.copytree(stores.paths["basic"], path)
    records = sorted(place[1] for place in stores.records if place[0] == "basic")
    position = records[len(records) // 2]
    facts = stores.records["basic", position]
    file = max(int(each.name) for each in (path / "commitlog").iterdir() if int(each.name) <= position)
    with (path / "commitlog" / f"{file:020}").open("r+b") as log:
        log.seek(position - file + 84 + facts["bodySize"] - 1)
        byte = log.read(1)[0]
        log.seek(-1, 1)
        log.write(bytes([byte ^ 1]))
    yield path, position


@pytest.mark.parametrize("options", [{}, {"splitSize": "64k"}])
def test_a_damaged_record_fails_the_read_or_is_left_out(
    spark: SparkSession, damaged: tuple[Path, int], options: dict[str, str]
) -> None:
    path, position = damaged
    said = fail(spark, path, **options)
    assert f"{path}/commitlog/" in said
    assert f"damaged record at log position {position}" in said
    assert "what is left can be read with failOnDataLoss=false" in said
    lenient = spark.read.format("rocketmq").options(failOnDataLoss="false", columns="physicalOffset,body", **options)
    found = {row.physicalOffset for row in lenient.load(str(path)).collect()}
    assert len(found) == 599
    assert position not in found


def test_a_log_without_its_middle_is_refused(spark: SparkSession, stores: GoldenStores, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    shutil.copytree(stores.paths["basic"], path)
    (path / "commitlog" / f"{65536 * 3:020}").unlink()
    assert f"{65536 * 3:020} is missing, though files before and after it are there" in fail(spark, path)


@pytest.mark.parametrize(
    ("options", "said", "now"),
    [
        ({"subscribe": "TopicAlfa"}, "no topic 'TopicAlfa'; the nearest name is 'TopicAlpha'", False),
        ({"path": "/no/where"}, "no store at /no/where: no such directory", False),
        ({"endingOffsets": "latest"}, "option endingOffsets is for batches; a stream does not end", True),
    ],
)
def test_a_stream_says_what_it_misses(
    spark: SparkSession, stores: GoldenStores, tmp_path: Path, options: dict[str, str], said: str, now: bool
) -> None:
    from pyspark.errors import PySparkException

    frame = spark.readStream.format("rocketmq").options(**{"path": str(stores.paths["basic"]), **options}).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = (writer.trigger(availableNow=True) if now else writer).start()
    with pytest.raises(PySparkException, match=said) as caught:
        query.awaitTermination(60)
    assert "UnboundLocalError" not in str(caught.value)  # Spark's own, where a reader cannot be made


def test_a_table_cannot_be_made(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="use CREATE TEMPORARY VIEW … USING rocketmq"):
        spark.sql("CREATE TABLE no_table USING rocketmq OPTIONS (path 'data')")


def test_a_queue_may_be_named_that_has_no_messages_yet(spark: SparkSession, tmp_path: Path) -> None:
    with open_store(tmp_path / "data") as store:
        store.put(Message("orders", b"x"), queue=1)
    options = {"brokerName": "a", "columns": "queueId"}
    for named in (
        {"startingOffsets": '{"orders": {"a": {"0": 0, "1": 0, "2": -2}}}'},
        {"endingOffsets": '{"orders": {"a": {"0": 0, "3": -1}}}'},
        {"assign": '{"orders": {"a": [0, 1]}}'},
    ):
        rows = spark.read.format("rocketmq").options(**options, **named).load(str(tmp_path / "data")).collect()
        assert [row.queueId for row in rows] == [1]
    for offset, said in (
        ('"0": 3', "offset 3, which startingOffsets says, cannot be read: it has [0, 0)"),
        ('"4": 0', "names queue 4 of topic 'orders', which has 1 at a"),
    ):
        named = {"startingOffsets": f'{{"orders": {{"a": {{{offset}}}}}}}'}
        assert said in fail(spark, tmp_path / "data", **options, **named)
