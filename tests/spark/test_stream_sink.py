"""Streams into topics: each row once, whatever happens to the query."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import Served
from tests.spark.served import bodies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100  # of a batch
BATCHES = 4
VICTIM = Path(__file__).with_name("stream_victim.py")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory that a stream reads, one file a batch."""
    folder = tmp_path / "files"
    folder.mkdir()
    for batch in range(BATCHES):
        add_file(folder, batch)
    return folder


def add_file(folder: Path, batch: int) -> None:
    lines = "".join(f"{number}\n" for number in range(batch * ROWS, (batch + 1) * ROWS))
    (folder / f"{batch:03d}.txt").write_text(lines)


def run_stream(spark: SparkSession, served: Served, files: Path, checkpoint: Path, topic: str) -> None:
    """Write what files hold that were not written yet, a batch for each."""
    df = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(files))
    query = (
        df.selectExpr("value as body")
        .writeStream.format("rocketmq")
        .option("namesrv", served.namesrv)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def lines_of(batches: int) -> Counter[bytes]:
    return Counter(b"%d" % number for number in range(batches * ROWS))


def test_a_stream_writes_each_row_once_and_goes_on_where_it_stopped(
    spark: SparkSession, ember: Served, files: Path, tmp_path: Path
) -> None:
    run_stream(spark, ember, files, tmp_path / "checkpoint", "stream")
    assert bodies(ember, "stream") == lines_of(BATCHES)
    add_file(files, BATCHES)
    run_stream(spark, ember, files, tmp_path / "checkpoint", "stream")
    assert bodies(ember, "stream") == lines_of(BATCHES + 1)


def test_a_batch_that_spark_commits_again_is_not_written_again(
    spark: SparkSession, ember: Served, files: Path, tmp_path: Path
) -> None:
    """The checkpoint as a query leaves it that is killed between our commit and Spark's own."""
    checkpoint = tmp_path / "checkpoint"
    run_stream(spark, ember, files, checkpoint, "stream-again")
    for path in (checkpoint / "commits").glob(f"*{BATCHES - 1}*"):
        path.unlink()
    add_file(files, BATCHES)
    run_stream(spark, ember, files, checkpoint, "stream-again")
    assert bodies(ember, "stream-again") == lines_of(BATCHES + 1)
    assert [str(path) for path in (ember.data / "staged").glob("*/*.chunks")] == []


def test_another_checkpoint_is_another_stream(spark: SparkSession, ember: Served, files: Path, tmp_path: Path) -> None:
    for attempt in range(2):
        run_stream(spark, ember, files, tmp_path / f"checkpoint-{attempt}", "stream-twice")
    assert bodies(ember, "stream-twice") == lines_of(BATCHES) + lines_of(BATCHES)


def test_a_row_that_cannot_be_written_stops_the_stream_and_says_why(
    spark: SparkSession, ember: Served, files: Path, tmp_path: Path
) -> None:
    (files / "000.txt").write_text("first\n\nthird\n")
    with pytest.raises(Exception, match="row 2 of partition 0 cannot be written: an empty body"):
        run_stream(spark, ember, files, tmp_path / "checkpoint", "stream-broken")
    shutil.rmtree(files)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_stream_killed_around_its_commits_writes_each_row_once(
    spark_environment: None, ember: Served, tmp_path: Path
) -> None:
    """Driver and JVM are killed with SIGKILL: before a commit, inside of one, and after one. Then it runs on."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        str(VICTIM),
        ember.namesrv,
        str(ember.data),
        str(tmp_path / "checkpoint"),
    ]
    for moment in ("before", "inside", "after"):
        killed = subprocess.run([*command, moment], capture_output=True, text=True, check=False, start_new_session=True)
        assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    ended = subprocess.run([*command, "never"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = bodies(ember, "stream-killed")
    assert found == Counter(b"%d" % number for number in range(found.total()))
    assert found.total() >= 8 * ROWS
