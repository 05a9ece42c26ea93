"""Every script in examples/ that uses Spark runs, in the session of all tests, and says what it should."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embermq import Message, open_store
from tests.e2e.conftest import Served
from tests.spark.served import bodies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTED_ELSEWHERE = {"demo.py"}
ORDERS = [b'{"id": %d, "amount": %d.5}' % (number, number) for number in range(6)] + [b"no order"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A store with orders and payments."""
    with open_store(tmp_path / "data") as store:
        for number, body in enumerate(ORDERS):
            store.put(Message("orders", body, tags=("eu", "us")[number % 2], keys=[f"o-{number}"]))
        for number in range(4):
            store.put(Message("payments", b"paid", keys=[f"o-{number}"]))
    return tmp_path / "data"


class Example:
    """Runs a script as its user does, and gives what it prints."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capture = capfd

    def run(self, name: str, *arguments: object) -> str:
        self._monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        self._capture.readouterr()
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return self._capture.readouterr().out


@pytest.fixture
def example(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Example:
    return Example(monkeypatch, capfd)


def test_first_steps(example: Example, data: Path) -> None:
    said = example.run("first_steps.py", data)
    assert "|  orders|      data|      0|          0|" in said
    assert " |-- queueOffset: long (nullable = true)" in said
    assert "|  orders|  eu|    4|" in said
    assert "|payments|NULL|    4|" in said


def test_windowed_counts(example: Example, data: Path, tmp_path: Path) -> None:
    assert "7 messages in the last batch" in example.run("windowed_counts.py", data, "orders", tmp_path / "marks")
    with open_store(data) as store:
        store.put(Message("orders", b"late"))
    assert "1 messages in the last batch" in example.run("windowed_counts.py", data, "orders", tmp_path / "marks")


def test_json_bodies(example: Example, data: Path) -> None:
    said = example.run("json_bodies.py", data, "orders")
    assert "| o-5|  us|   5.5|" in said
    assert "1 bodies are no orders" in said


def test_join_of_topics(example: Example, data: Path) -> None:
    said = example.run("join_topics.py", data, "orders", "payments")
    assert '|o-4 |{"id": 4, "amount": 4.5}|' in said
    assert "3 of 7 orders are not paid" in said


def test_replay_of_a_day(example: Example, data: Path, ember: Served) -> None:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    said = example.run("replay_day.py", data, "orders", today, ember.namesrv, "orders-of-a-day")
    assert f"7 messages of orders, stored on {today} (UTC), are in orders-of-a-day" in said
    assert bodies(ember, "orders-of-a-day") == Counter(ORDERS)


def test_no_example_is_left_out() -> None:
    tests = Path(__file__).read_text()
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert {name for name in scripts if f'"{name}"' in tests} == scripts
