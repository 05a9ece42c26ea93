"""Kernels are an extra: where numba is missing they cannot be imported, and nothing else minds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = (
    *("memory", "crc", "text", "byte_table", "records", "record_scan", "dispatch", "queue_runs", "index_rows"),
    *("record_check", "index_match", "found_records"),
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


def test_what_every_process_imports_needs_nothing() -> None:
    modules = ("cache_folder", "cache_name", "columns", "loading", "resident_memory", "switching")
    script = f"import {', '.join(f'embermq.kernels.{name}' for name in modules)}\n"
    script += "import embermq.store.reader, embermq.store.store, embermq.store.verify\n"
    assert run(script + "print({'numba', 'numpy', 'llvmlite'} & set(sys.modules))").stdout == "set()\n"
