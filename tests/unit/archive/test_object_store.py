"""Archives in an object store: moto's S3, in a process of its own, reached as users reach theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("moto")
pytest.importorskip("deltalake")

from tests.builders import SMALL_SIZES, open_store, some_messages
from tests.free_ports import free_port

SOURCE = Path(__file__).parents[3] / "src"
PATIENCE_S = 120.0
BUCKET = "archives"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What a process needs to know of an object store that runs."""
    port = free_port()
    found = {
        "AWS_ACCESS_KEY_ID": "some-key",
        "AWS_SECRET_ACCESS_KEY": "some-secret",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "PYTHONPATH": str(SOURCE),
    }
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (tmp_path_factory.mktemp("moto") / "log").open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        make_bucket(port)
        yield found
    finally:
        process.kill()
        process.wait()


def make_bucket(port: int) -> None:
    """Have a bucket, as soon as the server answers."""
    deadline = time.monotonic() + PATIENCE_S
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
    while True:
        try:
            urllib.request.urlopen(request, timeout=PATIENCE_S).close()
        except urllib.error.URLError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return


def ember(environment: dict[str, str], *arguments: str) -> dict[str, int]:
    """What a command said last."""
    command = [sys.executable, "-m", "embermq", "archive", *arguments, "--json"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_an_archive_in_s3_is_made_goes_on_and_is_read(tmp_path: Path, environment: dict[str, str], format: str) -> None:
    target = f"s3://{BUCKET}/{format}"
    for count in (40, 30):
        with open_store(tmp_path / "store", **SMALL_SIZES) as store:
            store.put_many(some_messages(count, topic="orders"))
            store.put_many(some_messages(count, topic="%RETRY%billing"))
        options = ("--format", format, "--system-topics", "--batch-bytes", "6000", "--workers", "2")
        done = ember(environment, "run", str(tmp_path / "store"), target, *options)
        assert done["messages"] == 2 * count
    assert ember(environment, "replay", target, "--dry-run", "--topic", "orders")["messages"] == 70
    assert ember(environment, "replay", target, "--out", str(tmp_path / "again"))["messages"] == 140
