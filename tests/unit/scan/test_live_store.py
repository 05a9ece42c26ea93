"""A store is read while it is written: never a record that is not confirmed, and none left out that is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

pytest.importorskip("pyarrow")

from embermq import Message
from embermq.files.lock import DirectoryLock
from embermq.format.record import Draft, encode_draft
from embermq.format.running_mark import encode_mark, find_dispatched
from embermq.scan.numpy_engine import NumpyEngine
from embermq.scan.planner import find_log_end, list_queues, plan
from embermq.scan.reading import read_split
from embermq.scan.wanted import Wanted
from tests.builders import a_store
from tests.conftest import Golden

ROOT = Path(__file__).parents[3]
WANTED = Wanted(columns=("queueOffset", "physicalOffset", "body"), system_topics=True)
SENT = 60  # each read plans anew
WRITER = """
import sys
sys.path[:0] = ["src", "."]
from embermq import Message
from tests.builders import a_store

with a_store(sys.argv[1], durability=sys.argv[2]) as store:
    number = 0
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            store.put(Message("orders", b"%d" % number, queue=0))
            number += 1
            print(number, flush=True)
"""


def bodies(path: Path) -> list[bytes]:
    rows = (batch for split in plan(str(path), WANTED) for batch in read_split(split, WANTED, make_engine=NumpyEngine))
    return [body for batch in rows for body in batch.column("body").to_pylist()]


def start_writer(path: Path, durability: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), durability]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def acknowledged(output: IO[str]) -> int:
    """How many puts have returned, as far as that was told already."""
    return int(output.readline())


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
def test_what_another_process_writes_is_seen_once_it_is_confirmed(tmp_path: Path, durability: str) -> None:
    with start_writer(tmp_path / "store", durability) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        writer.stdin.write(f"{SENT}\n")
        writer.stdin.flush()
        seen = 0
        while seen < SENT:
            told = acknowledged(writer.stdout)
            found = bodies(tmp_path / "store")
            assert found == [b"%d" % number for number in range(len(found))]
            assert len(found) >= (seen if durability == "pooled" else told)  # pooled: visible when it is in the file
            seen = len(found)
            for _ in range(min(seen, SENT) - told):
                told = acknowledged(writer.stdout)
            if told == SENT:
                break
        writer.stdin.close()
        assert writer.wait(timeout=30) == 0
    assert len(bodies(tmp_path / "store")) == SENT


@pytest.mark.parametrize("durability", ["async", "sync"])
def test_a_record_that_is_whole_but_not_confirmed_is_not_seen(tmp_path: Path, durability: str) -> None:
    with a_store(tmp_path, durability=durability) as store:
        store.put_many([Message("orders", b"%d" % number, queue=0) for number in range(10)])
        end = store.state().log_written
        record = encode_draft(
            Draft(b"orders", 0, b"10", b""), offset=10, position=end, store_time=1, store_host=b"\x7f\0\0\1\0\0\0\0"
        )
        descriptor = os.open(tmp_path / "commitlog" / f"{0:020d}", os.O_RDWR)
        os.pwrite(descriptor, record, end)
        assert find_log_end(str(tmp_path)) == end
        assert bodies(tmp_path) == [b"%d" % number for number in range(10)]
        os.pwrite(descriptor, bytes(len(record)), end)
        os.close(descriptor)


def test_the_mark_of_a_store_says_how_far_it_is_and_who_owns_it(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        for number in range(3):
            store.put(Message("orders", b"%d" % number))
            mark = (tmp_path / "abort").read_bytes()
            assert find_dispatched(mark) == store.state().log_written
            assert mark.startswith(b"%d\n" % os.getpid())
    assert not (tmp_path / "abort").exists()


@pytest.mark.parametrize("mark", [b"", b"4711", b"4711\n".ljust(80), encode_mark(1, -5), encode_mark(1, 5) + b"x"])
def test_a_mark_that_is_not_ours_says_nothing(mark: bytes) -> None:
    assert find_dispatched(mark) is None


def test_a_mark_that_a_crash_left_says_nothing_while_the_store_is_opened(tmp_path: Path) -> None:
    from embermq.store.running_mark import RunningMark

    (tmp_path / "abort").write_bytes(encode_mark(1, 10**9))
    RunningMark(tmp_path / "abort").silence()
    assert find_dispatched((tmp_path / "abort").read_bytes()) is None
    assert (tmp_path / "abort").exists()


def test_of_a_store_that_rocketmq_has_open_the_queues_tell_the_end(golden: Golden) -> None:
    path = golden.store("crashed")  # its last records were not in the queues yet when it was killed
    expected = golden.expected("crashed")
    known = max(
        unit[0] + unit[1] for queues in expected["consumeQueues"].values() for queue in queues.values()
        for unit in queue["units"]
    )  # fmt: skip
    lock = DirectoryLock(path)
    lock.take()
    try:
        assert find_log_end(str(path)) == known
        found = len(bodies(path))
    finally:
        lock.release()
    assert found == sum(facts["physicalOffset"] < known for facts in expected["commitLog"]["records"])
    assert len(bodies(path)) == len(expected["commitLog"]["records"])  # nobody has it open: what recovery keeps


def test_an_entry_that_is_only_half_written_is_no_end(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        store.put_many([Message("orders", b"%d" % number, queue=0) for number in range(5)])
        end = store.state().log_written
    (queue,) = (tmp_path / "consumequeue" / "orders" / "0").iterdir()
    for entry in (end.to_bytes(8, "big") + (100).to_bytes(4, "big"), bytes(8) + (100).to_bytes(4, "big")):
        with queue.open("r+b") as file:
            file.seek(5 * 20)
            file.write(entry.ljust(20, b"\0"))
        assert find_log_end(str(tmp_path)) == end
        assert [state[2:] for state in list_queues(str(tmp_path)) if state.topic == "orders"] == [(0, 5)]
