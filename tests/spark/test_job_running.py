"""Tasks of jobs on Spark: the same as in local processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embermq.errors import CorruptRecord, SettingsError
from embermq.jobs.errors import MasterUnreachable, TaskFailed
from embermq.jobs.progress import Progress
from embermq.jobs.running import open_runner
from tests.builders import wait_until
from tests.free_ports import free_address
from tests.unit.jobs.showing import Shown
from tests.unit.jobs.test_local_runner import fail, square

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_results_come_in_the_order_of_tasks_and_all_bytes_are_told(spark: SparkSession) -> None:
    from embermq_spark.jobs.running import SparkRunner

    told: list[int] = []
    assert SparkRunner(spark).run(square, range(20), told.append) == [number * number for number in range(20)]
    assert sum(told) == sum(range(20))
    assert SparkRunner(spark).run(square, [], told.append) == []


def test_errors_arrive_as_they_were(spark: SparkSession) -> None:
    from embermq_spark.jobs.running import SparkRunner

    with pytest.raises(CorruptRecord) as caught:
        SparkRunner(spark).run(fail, [1, 3], lambda size: None)
    assert caught.value.position == 77
    with pytest.raises(TaskFailed, match="ZeroDivisionError: oh"):
        SparkRunner(spark).run(fail, [1, 7], lambda size: None)


CONNECTED = """
import sys
from embermq.jobs.running import open_runner
from tests.unit.jobs.test_local_runner import square
with open_runner(sys.argv[1]) as runner:
    print(runner.run(square, [2, 3], lambda size: None))
"""


def test_tasks_run_through_spark_connect(connect_address: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", CONNECTED, connect_address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout == "[4, 9]\n", done.stderr[-2000:]


def sleep_long(marker: Path, report: object) -> None:
    marker.touch()
    time.sleep(600)


def test_ctrl_c_ends_the_tasks(spark: SparkSession, tmp_path: Path) -> None:
    from embermq_spark.jobs.running import SparkRunner

    marker = tmp_path / "begun"

    def press() -> None:
        wait_until(marker.exists, seconds=60)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        SparkRunner(spark).run(sleep_long, [marker], lambda size: None)
    presser.join()
    wait_until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), seconds=60)
    assert SparkRunner(spark).run(square, [3], lambda size: None) == [9]


def test_how_far_spark_is_with_a_stage_is_told(spark: SparkSession, tmp_path: Path) -> None:
    from embermq_spark.jobs.running import call_apart
    from embermq_spark.jobs.stages import stage_watch

    gate, shown = tmp_path / "gate", Shown()
    watch = stage_watch(spark, Progress("report", shown, first_after_s=0.0))

    def pass_gate(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            while batch.column(0).to_pylist() != [0] and not gate.exists():
                time.sleep(0.01)
            yield batch

    def look() -> None:
        watch()
        if shown.states and shown.states[-1].done:
            gate.touch()

    frame = spark.range(0, 6, 1, 6).mapInArrow(pass_gate, "id long")
    assert len(call_apart(spark, frame.collect, look)) == 6
    state = next(each for each in shown.states if each.done)
    assert (state.job, state.done, state.total, state.unit) == ("report", 1, 6, "tasks")
    assert state.step.startswith("stage ")


def test_ctrl_c_waits_for_a_session_that_is_being_made(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM whose start is given up would stay behind."""
    from embermq_spark.jobs import running

    made: list[SparkSession] = []

    def make(*_: object, **__: object) -> SparkSession:
        os.kill(os.getpid(), signal.SIGINT)
        made.append(spark)
        return spark

    monkeypatch.setattr(running, "session", make)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), running.open_spark_session("local[2]"):
        raise AssertionError("the block must not begin")
    assert made == [spark]
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize("scheme", ["spark", "sc", "k8s", "k8s://https"])
def test_a_master_that_cannot_be_reached_is_told_at_once(scheme: str, spark_environment: None) -> None:
    with pytest.raises(MasterUnreachable, match="start it"), open_runner(f"{scheme}://{free_address()}"):
        pass


def test_what_is_no_address_is_told_at_once(spark_environment: None) -> None:
    with pytest.raises(SettingsError, match="no host and port"), open_runner("spark://nowhere"):
        pass


@pytest.mark.parametrize(
    ("master", "said"),
    [("bogus", "no Spark master"), ("local:2", "no Spark master"), ("yarn", "needs HADOOP_CONF_DIR or YARN_CONF_DIR")],
)
def test_what_is_no_master_is_told_without_a_jvm(
    master: str, said: str, spark_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from embermq_spark.jobs import running

    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(running, "session", pytest.fail)
    with pytest.raises(SettingsError, match=said), open_runner(master):
        pass
