"""`ember report`: what it prints and draws, and what it says when it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from embermq import Message, open_store
from embermq.cli.main import main
from embermq.cli.report import PURPOSES
from tests.e2e.conftest import Served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 7


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "store"
    with open_store(path, durability="async") as opened:
        opened.put_many([Message("orders", b"x", queue=0, keys=["a"]) for _ in range(COUNT)])
    return path


def rows_in(out: str) -> list[dict[str, Any]]:
    """What `--json` prints, without how far it was."""
    return [row for row in map(json.loads, out.splitlines()) if "progress" not in row]


def test_every_report_has_a_command(spark: SparkSession) -> None:
    from embermq_spark.reports.catalogue import CATALOGUE

    assert CATALOGUE.keys() == PURPOSES.keys()


def test_a_table_and_json(spark: SparkSession, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "skew", str(store)]) == 0
    assert capsys.readouterr().out.split()[:4] == ["topic", "brokerName", "queueId", "messages"]
    assert main(["report", "skew", str(store), "--json"]) == 0
    row, *others = rows_in(capsys.readouterr().out)
    assert (row["topic"], row["messages"], row["share"]) == ("orders", COUNT, 1.0)
    assert {other["messages"] for other in others} == {0}  # queues of the same topic


def test_nothing_to_report_is_told(spark: SparkSession, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "dlq", str(store)]) == 0
    assert capsys.readouterr() == ("", "ember: there is nothing to report\n")
    assert main(["report", "dlq", str(store), "--json"]) == 0
    out, said = capsys.readouterr()
    assert (rows_in(out), said) == ([], "")


@pytest.mark.parametrize("count", ["0", "-1", "x"])
def test_a_number_of_rows_is_one_at_least(store: Path, capsys: pytest.CaptureFixture[str], count: str) -> None:
    assert main(["report", "skew", str(store), "-n", count]) == 2
    assert "a whole number from 1 on" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "begin"), [("picture.png", b"\x89PNG\r\n"), ("picture.html", b"<!doctype html>")])
def test_pictures(spark: SparkSession, store: Path, tmp_path: Path, name: str, begin: bytes) -> None:
    assert main(["report", "keys", str(store), "--plot", str(tmp_path / name)]) == 0
    data = (tmp_path / name).read_bytes()
    assert data.startswith(begin)
    if name.endswith("html"):
        assert b"<svg" in data and b"<td>orders</td>" in data


def test_lag_of_a_running_cluster_and_its_history(
    spark: SparkSession, ember: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from embermq import Client

    with Client(ember.namesrv) as client:
        for number in range(COUNT):
            client.send("report-lag", b"x", keys=[str(number)])
        for message in client.consume("report-lag", group="report-group"):
            with message:
                break
    kept = str(tmp_path / "lags")
    asked = ["report", "lag", "--namesrv", ember.namesrv, "--group", "report-group", "--json", "--keep", kept]
    assert main(asked) == 0
    rows = rows_in(capsys.readouterr().out)
    own = [row for row in rows if row["topic"] == "report-lag"]
    assert own and all(row["group"] == "report-group" and row["endOffset"] >= row["offset"] for row in own)
    assert sum(row["endOffset"] for row in own) == COUNT
    picture = tmp_path / "lag.html"
    assert main(["report", "lag", "--history", kept, "--json", "--plot", str(picture)]) == 0
    sums = {row["topic"]: row["lag"] for row in rows_in(capsys.readouterr().out)}
    assert sums["report-lag"] == sum(row["lag"] for row in own)
    assert b"<svg" in picture.read_bytes()


def test_times_are_in_utc_and_the_last_of_a_history_are_shown(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [f"2026-11-0{day}T12:00:00.500Z" for day in range(1, 6)]
    rows = [
        f"select timestamp '{at}' as at, 'g' as group, 't' as topic, 'b' as brokerName, 0 as queueId" for at in times
    ]
    kept = str(tmp_path / "lags")
    numbers = "bigint(1) as offset, bigint(4) as endOffset, bigint(3) as lag, bigint(9) as lagMs"
    spark.sql(" union all ".join(f"{row}, {numbers}" for row in rows)).write.parquet(kept)
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert main(["report", "lag", "--history", kept, "-n", "2", "--json"]) == 0
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [row["at"] for row in rows_in(capsys.readouterr().out)] == times[-2:]


def test_a_picture_of_nothing_says_so(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    assert main(["report", "dlq", str(store), "--plot", str(tmp_path / "x.html")]) == 0
    assert "nothing to report" in (tmp_path / "x.html").read_text()


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (-250, "-250 ms"),
        (1_500, "1.5 s"),
        (1_200_000, "20 min"),
        (10_800_000, "3 h"),
        (216_000_000, "2.5 d"),
    ],
)
def test_times_at_an_axis_are_short(spark_environment: None, milliseconds: float, text: str) -> None:
    from embermq_spark.reports.plots import format_duration

    assert format_duration(milliseconds) == text


def test_a_command_is_not_drowned_by_spark(store: Path, spark_environment: None) -> None:
    command = [sys.executable, "-m", "embermq", "report", "skew", str(store), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    row, *_ = rows_in(done.stdout)
    assert row["messages"] == COUNT
    said = [line for line in done.stderr.splitlines() if "incubator modules" not in line]  # which Java itself says
    assert said == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["skew", "{empty}/none"], 3, "none"),
        (["skew", "{store}", "--topic", "order"], 3, "orders"),
        (["skew", "{store}", "--plot", "x.gif"], 2, ".png"),
        (["skew", "{store}", "--plot", "{empty}/none/x.png"], 2, "none/x.png; name a file"),
        (["lag", "--history", "{empty}/none"], 2, "--keep"),
        (["lag", "{store}", "--since", "1h"], 2, "--history"),
        (["skew", "{store}", "--spark", "spark://127.0.0.1:1"], 1, "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_is_one_line(
    spark: SparkSession, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str],
    code: int, words: str,
) -> None:  # fmt: skip
    told = [each.format(empty=tmp_path, store=store) for each in arguments]
    assert main(["report", *told]) == code
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
