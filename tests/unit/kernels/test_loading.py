"""Kernels are loaded once, in any thread, out of a cache, and leave little in memory; without them nothing is amiss."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from embermq.errors import CompileFailed, EngineError, EngineMissing
from embermq.kernels import loading
from tests.builders import wait_until

ROOT = Path(__file__).parents[3]


def run(script: str, **environment: str) -> Any:
    """What a new process prints as JSON."""
    begin = "import json, sys; sys.path.insert(0, 'src')\nfrom embermq.kernels import loading\n"
    environment = {**os.environ, **environment}
    command = [sys.executable, "-c", begin + script]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    loading.load()


def test_asking_costs_nothing() -> None:
    script = """
facts = [loading.is_installed(), loading.is_warm(), loading.is_loaded()]
print(json.dumps([*facts, sorted({'numba', 'numpy', 'llvmlite'} & set(sys.modules))]))
"""
    assert run(script) == [True, True, False, []]


def test_a_load_is_one_load_whoever_asks_for_it() -> None:
    script = """
import threading
threads = [threading.Thread(target=loading.load) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
before = dict(sys.modules)
loading.load()
from embermq.kernels.cache_name import kernel_files
missing = [path.stem for path in kernel_files() if f'embermq.kernels.{path.stem}' not in before]
print(json.dumps([loading.is_loaded(), missing, before == dict(sys.modules)]))
"""
    assert run(script) == [True, [], True]


def test_a_warm_load_prepares_no_compilation_and_one_is_still_possible() -> None:
    script = """
loading.load()
prepared = 'numba.np.linalg' in sys.modules
import numba, numpy
from embermq.kernels.crc import crc32
from embermq.kernels.memory import address_of
double = numba.njit(lambda number: numpy.sum(numpy.arange(number)))
print(json.dumps([prepared, crc32(address_of(b'abc'), 3), int(double(4)), numba.config.CACHE_DIR]))
"""
    import zlib

    assert run(script, NUMBA_CACHE_DIR="mine") == [False, zlib.crc32(b"abc"), 6, "mine"]


def test_a_process_with_kernels_is_small() -> None:
    script = """
loading.load()
from pathlib import Path
lines = Path('/proc/self/status').read_text().splitlines()
print(json.dumps({line.split()[0]: int(line.split()[1]) // 1024 for line in lines if 'kB' in line}))
"""
    facts = run(script)
    assert facts["VmRSS:"] < 100  # MiB; a broker without kernels has some 35, and may have 150 with them
    assert facts["VmHWM:"] > facts["VmRSS:"] + 40  # most of the compiler was let go of


def test_without_numba_or_if_not_wanted_nothing_is_loaded() -> None:
    script = """
from embermq.errors import EngineMissing
try:
    loading.load()
    said = ''
except EngineMissing as error:
    said = str(error)
print(json.dumps([loading.is_installed(), loading.is_warm(), loading.is_loaded(), said, 'numpy' in sys.modules]))
"""
    off = run(script, EMBERMQ_ENGINE="off")
    assert off[:3] == [False, False, False]
    assert "EMBERMQ_ENGINE" in off[3]
    assert not off[4]
    assert run("sys.modules['numba'] = None\n" + script) == off


def test_loading_is_refused_in_a_process_that_does_not_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBERMQ_ENGINE", "off")
    monkeypatch.setattr(loading, "_loaded", type(loading._loaded)())
    with pytest.raises(EngineMissing, match="EMBERMQ_ENGINE"):
        loading.load()


def test_a_compilation_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CompileFailed, match="ember warm-up") as caught:
        loading._compile_apart(tmp_path / "file" / "kernels", threading.Event())
    assert "exit code 1" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_process_that_ends_does_not_wait_for_a_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBERMQ_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(loading, "_loaded", type(loading._loaded)())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(loading.load)
        wait_until(lambda: loading._compiling)
        loading.give_up()
        with pytest.raises(CompileFailed):
            waiting.result(10)
    assert not loading.is_loaded()
    assert not loading.is_warm()


def test_a_process_that_ends_begins_no_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBERMQ_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(loading, "_loaded", type(loading._loaded)())
    unwanted = threading.Event()
    unwanted.set()
    with ThreadPoolExecutor(1) as pool, pytest.raises(CompileFailed):
        pool.submit(loading.load, unwanted).result(10)
    assert not loading.is_loaded()


def test_a_process_that_ends_loads_no_more_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_loaded", type(loading._loaded)())
    monkeypatch.setattr("embermq.kernels.cache_folder.is_complete", lambda folder: True)
    unwanted = threading.Event()
    unwanted.set()
    with pytest.raises(EngineError, match="not wanted any more"):
        loading.load(unwanted)
    assert not loading.is_loaded()


def test_without_a_folder_there_is_one_for_this_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EMBERMQ_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with caplog.at_level(logging.WARNING):
        folder, is_kept = loading._make_folder()
    assert not is_kept
    assert folder.parent.parent == tmp_path
    assert folder.name == loading.cache_directory().name
    assert folder.stat().st_mode & 0o777 == 0o700
    (line,) = caplog.messages
    assert line.startswith("no cache for kernels")
    assert "error=" in line


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kernels_are_compiled_where_there_is_no_cache(tmp_path: Path) -> None:
    script = "loading.load()\nprint(json.dumps([loading.is_loaded(), loading.is_warm()]))"
    assert run(script, EMBERMQ_CACHE=str(tmp_path / "new")) == [True, True]
    (folder,) = (tmp_path / "new").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    (tmp_path / "temporary").mkdir()
    (tmp_path / "file").touch()
    script = "import logging; logging.disable()\n" + script
    places = {"EMBERMQ_CACHE": str(tmp_path / "file"), "TMPDIR": str(tmp_path / "temporary")}
    assert run(script, **places) == [True, False]
    assert list((tmp_path / "temporary").iterdir()) == []
