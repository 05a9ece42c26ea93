"""Checksums of memory are zlib's, whatever the size and wherever it begins."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from ctypes import string_at
from pathlib import Path
from random import Random

import pytest

from embermq.kernels.crc import LANES, crc32, crc32_by_tables, crc32_copying
from embermq.kernels.memory import address_of
from tests.unit.kernels.kernel_builders import CASES, run_cases

ROOT = Path(__file__).parents[3]
DATA = Random(5).randbytes(70_000)
PROCESSOR = set(Path("/proc/cpuinfo").read_text().split())
NEEDS_CARRYLESS = pytest.mark.skipif("pclmulqdq" not in PROCESSOR, reason="this processor has no PCLMULQDQ")
Method = Callable[[int, int], int]


def copied(address: int, size: int) -> int:
    """By the kernel that copies, which must copy these bytes and touch no others."""
    memory = bytearray(b"." * (size + 2))
    found = crc32_copying(address_of(memory) + 1, address, size)
    assert bytes(memory) == b"." + string_at(address, size) + b"."
    return found


METHODS = pytest.mark.parametrize("method", [crc32, crc32_by_tables, copied])


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


@pytest.mark.parametrize(
    ("features", "lanes"), [("", 0), pytest.param("+pclmul,+sse4.2", 1, marks=NEEDS_CARRYLESS)], ids=["tables", "lanes"]
)
def test_what_numba_may_not_use_is_not_used(tmp_path: Path, features: str, lanes: int) -> None:
    script = (
        "import zlib; from embermq.kernels.crc import *; from embermq.kernels.memory import address_of\n"
        f"data = bytes(range(256)) * 5; assert LANES == {lanes}\n"
        "for size in range(len(data)):\n"
        "    copied = bytearray(size + 1); wanted = zlib.crc32(data[:size])\n"
        "    assert crc32(address_of(data), size) == wanted\n"
        "    assert crc32_copying(address_of(copied), address_of(data), size) == wanted\n"
        "    assert copied == data[:size] + bytes(1)\n"
        "print('right')\n"
    )
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    environment |= {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "right\n", done.stderr


@NEEDS_CARRYLESS
def test_a_processor_that_multiplies_without_carries_is_used() -> None:
    assert (4 if {"vpclmulqdq", "avx512f"} <= PROCESSOR else 1) == LANES
