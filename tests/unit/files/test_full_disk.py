"""A disk that really is full: an error for the caller, never a signal for the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import embermq.errors

SOURCE = Path(embermq.errors.__file__).parents[1]

FILL = """
import errno, sys
from pathlib import Path
from embermq.files.file_chain import FileChain
chain = FileChain(Path(sys.argv[1]) / "log", int(sys.argv[2]), reserve_step=int(sys.argv[3]))
written = b""
try:
    while True:
        block = len(written).to_bytes(1024, "big")
        chain.append_file().append(block)
        written += block
except OSError as error:
    assert error.errno == errno.ENOSPC, error
assert chain.end == len(written)
assert chain.flush() == len(written)
assert b"".join(chain.select_rest(file.start) or b"" for file in chain.files) == written
if len(chain.files) > 1:
    chain.delete_before(chain.end // 2)
else:
    chain.truncate(chain.end // 2)
chain.append_file().append(b"space again")
print(len(written))
"""

FILL_WITHOUT_RESERVING = """
import mmap, sys
from pathlib import Path
with (Path(sys.argv[1]) / "log").open("w+b") as file:
    file.truncate(2 << 20)
    mmap.mmap(file.fileno(), 2 << 20)[:] = bytes([1]) * (2 << 20)
"""


BESIDE_LARGE_BLOCKS = """
import os, sys
from pathlib import Path
from embermq.files.mapped_file import MappedFile

SIZE, STEP, STEPS = 6_000_000, 1 << 16, 49
path = Path(sys.argv[1]) / ("0" * 20)
file = MappedFile.open(path, SIZE, reserve_step=STEP)
file.append(b"old" * (STEP // 3) * (STEPS - 1))
file.flush()
written = file.written
file.close()

descriptor = os.open(path, os.O_RDONLY)
os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
for at in range(0, SIZE, 1 << 15):  # reading ahead, the kernel makes ever larger blocks
    os.pread(descriptor, 1 << 15, at)
file = MappedFile.open(path, SIZE, written=written, reserve_step=STEP)
file.reserve(STEP * STEPS)

fill, size = os.open(path.with_name("fill"), os.O_RDWR | os.O_CREAT), 0
for step in (1 << 20, 1 << 16, 1 << 12):
    try:
        while True:
            os.posix_fallocate(fill, size, step)
            size += step
    except OSError:
        pass

if sys.argv[2] == "append":
    while file.written + 1000 <= STEP * STEPS:
        file.append(b"n" * 1000)
elif sys.argv[2] == "write_at":
    for at in range(written, STEP * STEPS - 4, 4096):
        file.write_at(at, b"slot")
else:
    file.truncate(written - 100_000)
file.flush()
try:
    file.append(b"x" * (1 << 21))
except OSError as error:
    print(error.strerror)
"""


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.parametrize(("file_size", "reserve_step"), [(1 << 18, 0), (1 << 18, 1 << 14), (1 << 21, 1 << 16)])
def test_appends_fail_with_an_error_and_all_before_them_is_kept(
    small_disk: Path, file_size: int, reserve_step: int
) -> None:
    done = run(FILL, small_disk, file_size, reserve_step)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= (1 << 20) - 2 * (reserve_step or file_size)  # the disk was used to its end


def test_without_reserving_the_same_disk_kills_the_process(small_disk: Path) -> None:
    """Shows that the tests above would notice."""
    assert run(FILL_WITHOUT_RESERVING, small_disk).returncode < 0


def test_a_prepared_file_that_finds_no_space_is_an_error_and_leaves_the_space(small_disk: Path) -> None:
    script = """
import sys
from pathlib import Path
from embermq.files.preparer import Preparer
preparer = Preparer()
path = Path(sys.argv[1]) / ("0" * 20)
preparer.prepare(path, 1 << 21)
try:
    preparer.take(path, 10)
except OSError as error:
    print(error.strerror)
preparer.prepare(path, 1 << 19)
preparer.take(path, 10).append(b"fits")
preparer.stop()
"""
    done = run(script, small_disk)
    assert (done.returncode, done.stdout) == (0, "No space left on device\n"), done.stderr


@pytest.mark.parametrize("act", ["append", "write_at", "truncate"])
def test_reserved_space_can_be_written_when_the_kernel_holds_it_in_blocks_that_reach_beyond_it(
    small_ext4: Path, act: str
) -> None:
    done = run(BESIDE_LARGE_BLOCKS, small_ext4, act)
    assert (done.returncode, done.stdout) == (0, "No space left on device\n"), done.stderr
