"""What is let go of is unchanged, can only be read, and belongs to the compiler's libraries."""

from __future__ import annotations

from pathlib import Path

from embermq.kernels.crc import crc32
from embermq.kernels.memory import address_of
from embermq.kernels.resident_memory import _iter_mappings, release_unused

SMAPS = """\
7f00-7f02 r-xp 00000000 fe:00 1 /a b/llvmlite/binding/libllvmlite.so
Rss:                   8 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
7f02-7f03 r--p 00002000 fe:00 1 /a b/llvmlite/binding/libllvmlite.so
Rss:                   4 kB
Anonymous:             4 kB
7f03-7f04 rw-p 00003000 fe:00 1 /a b/llvmlite/binding/libllvmlite.so
Rss:                   4 kB
Anonymous:             0 kB
7f05-7f06 r-xp 00000000 fe:00 2 /usr/lib/libc.so.6
Rss:                   4 kB
Anonymous:             0 kB
7f06-7f07 rw-p 00000000 00:00 0
Rss:                   4 kB
Anonymous:             4 kB
7f07-7f08 r--p 00000000 fe:00 3 /a/numba/_dispatcher.cpython-311-x86_64-linux-gnu.so
Rss:                   4 kB
"""


def test_only_what_a_file_can_give_back_may_go() -> None:
    found = [(each.begin, each.end, each.resident, each.may_go) for each in _iter_mappings(SMAPS)]
    assert found == [
        (0x7F00, 0x7F02, 8192, True),
        (0x7F02, 0x7F03, 4096, False),  # changed
        (0x7F03, 0x7F04, 4096, False),  # can be written
        (0x7F05, 0x7F06, 4096, False),  # of nobody we know
        (0x7F07, 0x7F08, 4096, False),  # nothing is said of changes
    ]


def test_our_own_mappings_can_be_read() -> None:
    found = list(_iter_mappings(Path("/proc/self/smaps").read_text()))
    assert any(each.may_go and "libllvmlite" in each.path for each in found)
    assert all(each.begin < each.end for each in found)


def test_everything_works_after_a_release() -> None:
    before = crc32(address_of(b"abc"), 3)
    release_unused()
    assert release_unused() < 50 << 20  # what is there was needed since
    assert crc32(address_of(b"abc"), 3) == before
