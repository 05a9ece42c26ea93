"""Jobs on stores as a shell runs them: progress, Ctrl-C, refusals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embermq import open_store
from tests.builders import some_messages, wait_until
from tests.e2e.conftest import SOURCE

PATIENCE_S = 60.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE), "EMBERMQ_ENGINE": "off"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that plain code needs more than a second for."""
    path = tmp_path_factory.mktemp("jobs") / "store"
    messages = some_messages(1_000, size=20)
    with open_store(path, durability="async", log_file_size=64 << 20) as opened:
        for _ in range(60):
            opened.put_many(messages)
    return path


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "embermq", "store", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def run(*arguments: object) -> tuple[int, str, str]:
    with start(*arguments) as process:
        out, said = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, said


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_leaves_no_half_result(store: Path, tmp_path: Path, workers: int) -> None:
    target = tmp_path / "out"
    with start("rebuild", store, "--out", target, "--workers", workers) as process:
        wait_until((tmp_path / ".out.unfinished" / "result" / "consumequeue").exists, seconds=PATIENCE_S)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, said) == (130, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_job_tells_how_far_it_is_and_ends_with_its_result(store: Path, tmp_path: Path) -> None:
    with start("rebuild", store, "--out", tmp_path / "out", "--workers", 1, "--json") as process:
        wait_until((tmp_path / ".out.unfinished" / "result" / "consumequeue").exists, seconds=PATIENCE_S)
        process.send_signal(signal.SIGSTOP)  # so that it takes longer than a second on any machine
        time.sleep(1.1)
        process.send_signal(signal.SIGCONT)
        out, said = process.communicate(timeout=PATIENCE_S)
    *steps, last = [json.loads(line) for line in out.splitlines()]
    assert (process.returncode, said) == (0, "")
    assert (last["done"], last["records"]) == (True, 60_000)
    assert steps
    for step in steps:
        assert set(step["progress"]) == {"job", "step", "done", "total", "leftS"}
        assert 0 <= step["progress"]["done"] <= step["progress"]["total"]


def test_a_target_that_exists_and_a_master_that_is_not_there_are_told_at_once(store: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    code, out, said = run("rebuild", store, "--out", tmp_path / "out")
    assert (code, out) == (4, "") and "exists already" in said
    code, out, said = run("verify", store, "--spark", "spark://127.0.0.1:1")
    assert (code, out) == (1, "") and "no Spark answers at spark://127.0.0.1:1" in said
    code, out, said = run("rebuild", store)
    assert (code, out) == (4, "") and "say --yes" in said


def test_an_address_is_no_directory(store: Path) -> None:
    for arguments in (("verify", "s3://bucket/store"), ("rebuild", store, "--out", "s3://bucket/out")):
        code, out, said = run(*arguments)
        assert (code, out) == (2, "") and "a directory of this machine expected" in said


def test_an_owner_is_named_and_stays_undisturbed(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as opened:
        opened.put_many(some_messages(10))
        code, _, said = run("rebuild", tmp_path / "store", "--yes")
        assert code == 4 and f"in use by process {os.getpid()}" in said
        assert run("rebuild", tmp_path / "store", "--out", tmp_path / "out")[0] == 0
        assert run("verify", tmp_path / "store")[0] == 0


def test_a_brokers_settings_tell_what_no_file_does(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", queue_file_size=2_000) as opened:
        opened.put_many(some_messages(10))
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    (tmp_path / "broker.conf").write_text("mappedFileSizeConsumeQueue=2000\n")
    code, _, said = run("rebuild", tmp_path / "store", "--yes", "--no-index", "-c", tmp_path / "broker.conf")
    assert code == 0, said
    sizes = {path.stat().st_size for path in (tmp_path / "store" / "consumequeue").rglob("0*") if path.is_file()}
    assert sizes == {2_000}


def test_a_dry_run_says_what_would_be_done(store: Path) -> None:
    code, out, said = run("rebuild", store, "--dry-run")
    assert (code, said) == (0, "") and out.startswith("would rebuild queues and index of")
    assert not (store / "replaced").exists()
