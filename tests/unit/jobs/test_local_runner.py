"""Tasks in processes of this machine: in order, with their errors, and none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embermq.errors import CorruptRecord
from embermq.jobs.errors import TaskFailed, WorkerLost
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Report

PATIENCE_S = 60.0


def square(number: int, report: Report) -> int:
    report(number)
    return number * number


def fail(number: int, report: Report) -> int:
    if number == 3:
        raise CorruptRecord(77, "no magic")
    if number == 5:
        raise FileNotFoundError(2, "No such file", "/nowhere")
    if number == 7:
        raise ZeroDivisionError("oh")
    return number


def kill_itself(number: int, report: Report) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def name_process(number: int, report: Report) -> int:
    return os.getpid()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_the_order_of_tasks_and_all_bytes_are_told(workers: int) -> None:
    told: list[int] = []
    results = LocalRunner(workers).run(square, range(20), told.append)
    assert results == [number * number for number in range(20)]
    assert sum(told) == sum(range(20))


def test_tasks_run_in_other_processes_which_end() -> None:
    pids = set(LocalRunner(3).run(name_process, range(9), print))
    assert os.getpid() not in pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_error_of_ours_arrives_as_it_was() -> None:
    with pytest.raises(CorruptRecord, match="no magic") as caught:
        LocalRunner(2).run(fail, [1, 3], lambda size: None)
    assert caught.value.position == 77


def test_an_error_of_the_system_arrives_as_it_was() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        LocalRunner(2).run(fail, [1, 5], lambda size: None)
    assert caught.value.filename == "/nowhere"


def test_another_error_says_what_and_where() -> None:
    with pytest.raises(TaskFailed, match=r"ZeroDivisionError: oh.*test_local_runner"):
        LocalRunner(2).run(fail, [1, 7], lambda size: None)


def test_a_worker_that_is_killed_is_told_of() -> None:
    with pytest.raises(WorkerLost, match="signal 9"):
        LocalRunner(2).run(kill_itself, [1, 2], lambda size: None)


VICTIM = """
import sys, time
from pathlib import Path
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.targets import building

def work(task, report):
    import os
    (Path(task) / str(os.getpid())).touch()
    time.sleep(1000)

with building(Path(sys.argv[1])) as folder:
    LocalRunner(2).run(work, [sys.argv[2]] * 2, lambda size: None)
"""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_a_job_that_is_stopped_leaves_no_process_and_no_result(tmp_path: Path, sign: signal.Signals) -> None:
    target, pids = tmp_path / "result", tmp_path / "pids"
    pids.mkdir()
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, str(target), str(pids)], stderr=subprocess.PIPE)
    wait_for(lambda: len(list(pids.iterdir())) == 2)
    victim.send_signal(sign)
    victim.communicate(timeout=PATIENCE_S)
    assert victim.returncode == -sign
    for path in pids.iterdir():
        wait_for(lambda pid=int(path.name): not is_alive(pid))
    assert not target.exists()
    assert (tmp_path / ".result.unfinished").exists() == (sign == signal.SIGKILL)


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def wait_for(condition) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
