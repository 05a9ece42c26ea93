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
KEY, SECRET = "some-key", "some-secret"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What a process needs to know of an object store that runs."""
    port = free_port()
    found = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
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


def test_no_error_and_no_mark_tells_keys_of_an_address(tmp_path: Path, environment: dict[str, str]) -> None:
    endpoint = environment["AWS_ENDPOINT_URL"].partition("://")[2].replace(":", "%3A")
    target = f"s3://{KEY}:{SECRET}@{BUCKET}/keys?scheme=http&endpoint_override={endpoint}"
    for name in ("store", "other"):
        with open_store(tmp_path / name, **SMALL_SIZES) as store:
            store.put_many(some_messages(20 if name == "store" else 10))
    code = """
import sys
from contextlib import closing
from embermq.archive.errors import ArchiveMismatch
from embermq.archive.history import read_state
from embermq.archive.origin import check_store, find_gap
from embermq.archive.tables import open_table
from embermq.cli.main import main
from embermq.scan.splits import StorePlace
from embermq.scan.survey import Survey

target, store, other = sys.argv[1:]
assert main(["archive", "run", store, target, "--format", "parquet"]) == 0
assert main(["archive", "run", other, target, "--format", "parquet"]) == 4
assert main(["archive", "replay", target.replace("/keys", "/none"), "--dry-run"]) == 3
state = read_state(open_table(target))
with closing(Survey(StorePlace(other))) as survey:
    survey.place = StorePlace(target)
    for check in (lambda: check_store(state, survey, "it"), lambda: print(find_gap(state, survey), file=sys.stderr)):
        survey.begin = state.end + 1
        try:
            check()
        except ArchiveMismatch as error:
            print(error, file=sys.stderr)
"""
    command = [sys.executable, "-c", code, target, str(tmp_path / "store"), str(tmp_path / "other")]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"s3://{BUCKET}/") >= 4, done.stderr
    marks = [path.read_text() for path in (tmp_path / "store" / "archived").iterdir()]
    assert f"s3://{BUCKET}/keys" in marks[0]
    assert SECRET not in done.stderr + done.stdout + "".join(marks)


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
