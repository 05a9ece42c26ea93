"""Runs the tasks of a job on Spark: one task of Spark for each.

Tasks travel pickled, results come back so. What an EmberError stops is not tried again: it would be the same. For
everything else Spark tries a task again, on another machine if there is one.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from embermq.errors import EmberError, SettingsError
from embermq.jobs.errors import MasterUnreachable, TaskFailed
from embermq.jobs.failures import Failure
from embermq_spark.sessions import STARTING_SETTINGS, is_remote, session

if TYPE_CHECKING:
    import pyarrow as pa

    from embermq.jobs.progress import Report
    from embermq.jobs.running import Work

T = TypeVar("T")
R = TypeVar("R")

_NO_PYTHON: Final = "Error from python worker:"  # it could not be started
_CAUSE: Final = re.compile(r"(?:Caused by: )?([\w.]+(?:Error|Exception): .*)")
_DAEMON: Final = STARTING_SETTINGS["spark.python.daemon.module"]
_LOOK_EVERY_S: Final = 0.2
_FAR_WORKERS: Final = 16  # where nobody tells how many there are
_CONNECT_TIMEOUT_S: Final = 5.0
_ADDRESSED: Final = re.compile(r"(?:spark|sc)://([^/;]+)")  # masters that are tried before a JVM is started
_KUBERNETES: Final = re.compile(r"k8s://(?:(https?)://)?([^/]+)")  # likewise
_OTHERS: Final = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn")
_HADOOP: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_SETTINGS: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
_LOGGING: Final = Path(__file__).parents[1] / "log4j2.properties"  # as somebody reads it who waits for a table


class SparkRunner:
    """Runs tasks in a session, which stays open."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._is_classic = not is_remote(spark)

    @property
    def workers(self) -> int:
        """See `running.Runner`. A server that is far away does not tell; it gets enough for many."""
        return int(self._spark.sparkContext.defaultParallelism) if self._is_classic else _FAR_WORKERS

    def run(self, work: Work[T, R], tasks: Sequence[T], report: Report) -> list[R]:
        """See `running.Runner`."""
        if not tasks:
            return []
        done = self._spark.sparkContext.accumulator(0) if self._is_classic else None
        wrapped = _wrap(work, [pickle.dumps(task) for task in tasks], done.add if done is not None else _nobody)
        frame = self._spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(wrapped, "number long, result binary")
        reported = 0

        def look() -> None:
            nonlocal reported
            if done is not None:
                report(done.value - reported)
                reported = done.value

        table = call_apart(self._spark, frame.toArrow, look)
        look()
        numbered = zip(table["number"].to_pylist(), table["result"].to_pylist(), strict=True)
        return [_result_of(data) for _, data in sorted(numbered)]


@contextmanager
def open_spark_runner(master: str) -> Iterator[SparkRunner]:
    """A runner on `master`; see `open_spark_session`."""
    with open_spark_session(master) as spark:
        yield SparkRunner(spark)


@contextmanager
def open_spark_session(master: str) -> Iterator[SparkSession]:
    """A session on `master`, or on the Spark Connect server at `sc://host:port`; it ends with the block unless it was
    there before.

    Raises MasterUnreachable if nobody answers, SettingsError for what is no master.
    """
    _check_reachable(master)
    where = {"remote": master} if master.startswith("sc://") else {"master": master}
    is_ours = SparkSession.getActiveSession() is None
    pressed: list[int] = []
    with _holding_interrupts(pressed):
        try:
            spark = session("embermq", settings=_settings() if "master" in where else None, **where)
        except EmberError:
            raise
        except Exception as error:  # py4j's, gRPC's and Spark's own have nothing else in common
            line = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
            raise SettingsError(f"no Spark session with master {master!r}: {line}") from error
    try:
        if pressed:
            raise KeyboardInterrupt
        yield spark
    finally:
        if is_ours:
            spark.stop()


def _settings() -> dict[str, str]:
    """Of a JVM that is ours alone; how it logs is left to whoever has a folder of settings for Spark."""
    if "SPARK_CONF_DIR" in os.environ:
        return _SETTINGS
    return {**_SETTINGS, "spark.driver.defaultJavaOptions": f'"-Dlog4j2.configurationFile={_LOGGING}"'}


@contextmanager
def _holding_interrupts(pressed: list[int]) -> Iterator[None]:
    """Note Ctrl-C in `pressed` instead of obeying it: a JVM whose start is given up stays behind, and complains.

    The handler that Spark sets meanwhile, which cancels jobs of others, too, goes with the block.
    """
    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, before)


def _check_reachable(master: str) -> None:
    """Try the addresses that a master names: Spark itself would try for minutes."""
    causes = []
    for address in _addresses_of(master):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise SettingsError(f"master {master!r}: {address!r} is no host and port")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            causes.append(f"{address}: {error}")
        else:
            return
    if causes:
        raise MasterUnreachable(master, "; ".join(causes))


def _addresses_of(master: str) -> list[str]:
    """The addresses that a master names. Raises SettingsError for what is none, instead of Spark's pages about it."""
    if found := _ADDRESSED.match(master):
        return found[1].split(",")
    if found := _KUBERNETES.match(master):
        return [found[2] if ":" in found[2] else f"{found[2]}:{80 if found[1] == 'http' else 443}"]
    if not _OTHERS.fullmatch(master):
        kinds = "local[*], spark://HOST:PORT, yarn, k8s://HOST:PORT or sc://HOST:PORT"
        raise SettingsError(f"{master!r} is no Spark master; {kinds} is one")
    if master == "yarn" and not any(map(os.environ.get, _HADOOP)):
        raise SettingsError(
            f"master 'yarn' needs {' or '.join(_HADOOP)} in the environment: where Hadoop's settings are"
        )
    return []


def call_apart(spark: SparkSession, work: Callable[[], T], look: Callable[[], None] = lambda: None) -> T:
    """What `work` gives, which has Spark work, in a thread of its own; `look` is called now and then meanwhile.

    So Ctrl-C stops Spark's tasks, and not the talk with it. Raises TaskFailed.
    """
    calling = _Calling(spark, work)
    try:
        while not calling.wait(_LOOK_EVERY_S):
            look()
    except BaseException:
        calling.interrupt()
        raise
    return calling.result()


class _Calling(threading.Thread, Generic[T]):
    """Has Spark do the work, while another thread waits."""

    def __init__(self, spark: SparkSession, work: Callable[[], T]) -> None:
        super().__init__(name="embermq-job", daemon=True)
        self._spark = spark
        self._work = work
        self._tag = f"embermq-{uuid.uuid4().hex}"
        self._results: list[T] = []
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        self._spark.addTag(self._tag)  # of this thread alone
        try:
            self._results.append(self._work())
        except Exception as error:
            self._error = error

    def wait(self, timeout_s: float) -> bool:
        """Whether it is over, after `timeout_s` at most."""
        self.join(timeout_s)
        return not self.is_alive()

    def interrupt(self) -> None:
        """Have Spark stop the tasks, and wait until it has."""
        self._spark.interruptTag(self._tag)
        self.join()

    def result(self) -> T:
        """What the work gave. Raises TaskFailed."""
        if self._error is None:
            return self._results[0]
        if not isinstance(self._error, PySparkException | Py4JError):
            raise self._error
        raise TaskFailed(f"{cause_of(self._error)}; Spark's log says more") from self._error


def cause_of(error: Exception) -> str:
    """The line of Spark's report that says what went wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    followed = (following for line, following in pairwise(lines) if line == _NO_PYTHON)
    named = (found[1] for line in reversed(lines) if (found := _CAUSE.match(line)))
    cause = next(followed, None) or next(named, lines[0] if lines else type(error).__name__)
    hint = "; executors need a Python with embermq and its extra spark: set PYSPARK_PYTHON" if _DAEMON in cause else ""
    return f"{cause}{hint}"


def _wrap(
    work: Work[Any, Any], tasks: list[bytes], report: Report
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark calls with the numbers of tasks."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    result = work(pickle.loads(tasks[number]), report)
                except EmberError as error:
                    result = Failure.of(error)
                yield pa.record_batch([[number], [pickle.dumps(result)]], ["number", "result"])

    return run


def _result_of(data: bytes) -> Any:
    result = pickle.loads(data)
    if isinstance(result, Failure):
        raise result.to_error()
    return result


def _nobody(size: int) -> None:
    """Nobody is told."""
