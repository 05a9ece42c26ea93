"""Kernels are an extra: where numba is missing they cannot be imported, and nothing else minds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = (
    *("memory", "crc", "text", "byte_table", "records", "record_scan", "dispatch", "queue_runs", "index_rows"),
    *(
        "scanning",
        "send_fields",
        "send_properties",
        "json_headers",
        "binary_headers",
        "sends",
        "topics",
        "answers",
        "gather",
    ),
)


def run(script: str) -> subprocess.CompletedProcess[str]:
    begin = "import sys; sys.path.insert(0, 'src')\n"
    command = [sys.executable, "-c", begin + script]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", MODULES)
def test_a_kernel_without_numba_is_an_import_error(module: str) -> None:
    script = "sys.modules['numba'] = None\n"
    script += f"try:\n    import embermq.kernels.{module}\nexcept ImportError as error:\n    print(error.name)\n"
    done = run(script)
    assert (done.stdout, done.stderr) == ("numba\n", "")


def test_columns_and_the_name_of_the_cache_need_nothing() -> None:
    script = "import embermq.kernels.columns, embermq.kernels.cache_name\nprint({'numba', 'numpy'} & set(sys.modules))"
    assert run(script).stdout == "set()\n"
