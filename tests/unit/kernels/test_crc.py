"""Checksums of memory are zlib's, whatever the size and wherever it begins."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from embermq.kernels.crc import HAS_CARRYLESS, crc32, crc32_by_tables
from embermq.kernels.memory import address_of
from tests.unit.kernels.kernel_builders import CASES, run_cases

ROOT = Path(__file__).parents[3]
DATA = Random(5).randbytes(70_000)
METHODS = pytest.mark.parametrize("method", [crc32, crc32_by_tables], ids=["crc32", "crc32_by_tables"])
Method = Callable[[int, int], int]


@METHODS
def test_every_small_size_at_every_alignment(method: Method) -> None:
    address = address_of(DATA)
    for size in range(300):
        for begin in range(33):
            assert method(address + begin, size) == zlib.crc32(DATA[begin : begin + size]), (size, begin)


@METHODS
@pytest.mark.parametrize("size", [1023, 1024, 1025, 4096, 65_535, 65_536, 65_537])
def test_larger_sizes(method: Method, size: int) -> None:
    for begin in range(17):
        assert method(address_of(DATA) + begin, size) == zlib.crc32(DATA[begin : begin + size])


@METHODS
@pytest.mark.parametrize("count", CASES)
def test_random_bytes(method: Method, count: int) -> None:
    def case(random: Random) -> int:
        data = random.choice((random.randbytes, bytes))(random.randrange(700))
        begin = random.randrange(len(data) + 1)
        assert method(address_of(data) + begin, len(data) - begin) == zlib.crc32(data[begin:])
        return 1

    assert run_cases(count, 1, case) == count


def test_what_numba_may_not_use_is_not_used(tmp_path: Path) -> None:
    script = (
        "import zlib; from embermq.kernels.crc import *; from embermq.kernels.memory import address_of\n"
        "data = bytes(range(256)) * 5; assert not HAS_CARRYLESS\n"
        "assert crc32(address_of(data), len(data)) == zlib.crc32(data); print('right')\n"
    )
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)}
    environment["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "right\n", done.stderr


@pytest.mark.skipif("pclmulqdq" not in Path("/proc/cpuinfo").read_text(), reason="this processor has no PCLMULQDQ")
def test_a_processor_that_multiplies_without_carries_is_used() -> None:
    assert HAS_CARRYLESS
