"""A program that puts messages until it is killed, and tells of each that was acknowledged.

    python -m tests.crash.writer <descriptor of a socket>

It waits on the socket for jobs and forks for each, so that a job begins in milliseconds:
what is to be killed is the fork. A job reports lines of text on a pipe that comes with it:

    opened                                          the store is open
    put <number> <queue> <offset> <position> <crc>  AFTER the put returned
    durable <position>                              a checkpoint returned: all before it is on disk
    refused <number> <error>                        a put raised
    calls <call>=<count> …                          the job ended, with the store closed
    trouble <action>: <error>                       a step ended with an error of the system
    ended <error>                                   opening or closing raised
    failed <error>                                  anything else was raised
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable
from typing import Any

from embermq import Store, open_store
from embermq.errors import EmberError
from tests.crash.faults import DEATHS, Faults
from tests.crash.plan import Step, iter_steps, message_of

Report = Callable[[str], None]
PAUSE_S = 0.002


def run(job: dict[str, Any], report: Report) -> None:
    """Open the store, do the steps, close it; unless death comes first."""
    with Faults() as faults:
        if death := job.get("death"):
            faults.add(DEATHS[death["moment"]], call=death["call"], at=death["at"])
        store = open_store(job["path"], **job["settings"])
        report("opened")
        threads = [threading.Thread(target=_do_steps, args=(store, job, lane, report)) for lane in range(job["lanes"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()
        report("calls " + " ".join(f"{call}={count}" for call, count in faults.counts.items()))


def _do_steps(store: Store, job: dict[str, Any], lane: int, report: Report) -> None:
    begin = job["begin"] + lane * 1_000_000
    for step in iter_steps(job["seed"], begin, job["steps"], only_puts=job["only_puts"]):
        try:
            _do(store, step, job["seed"], report)
        except EmberError as error:
            for number in step.numbers:
                report(f"refused {number} {type(error).__name__}: {error}")
        except OSError as error:
            report(f"trouble {step.action}: {error!r}")
        except Exception as error:
            traceback.print_exc()
            report(f"failed {step.action}: {error!r}")
            return


def _do(store: Store, step: Step, seed: int, report: Report) -> None:
    messages = [message_of(seed, number) for number in step.numbers]
    match step.action:
        case "put":
            receipts = [store.put(messages[0])]
        case "put_many":
            receipts = store.put_many(messages)
        case "checkpoint":
            end = store.state().dispatched
            store.checkpoint()
            report(f"durable {end}")
            return
        case "clean":
            store.clean()
            return
        case "pause":
            time.sleep(PAUSE_S)
            return
    for number, message, receipt in zip(step.numbers, messages, receipts, strict=True):
        crc = zlib.crc32(message.body)
        report(f"put {number} {receipt.queue} {receipt.offset} {receipt.position} {crc}")


def _run_in_fork(job: dict[str, Any], pipe: int) -> None:
    def report(line: str) -> None:
        os.write(pipe, line.replace("\n", " ").encode()[:4_000] + b"\n")  # one write, so never half a line

    try:
        run(job, report)
    except (EmberError, OSError) as error:
        report(f"ended {type(error).__name__}: {error}")
    except Exception as error:
        traceback.print_exc()
        report(f"failed {error!r}")


def serve(control: socket.socket) -> None:
    """Run jobs, one at a time, until the other side hangs up. Answers with the pid, and with how it ended."""
    while True:
        data, pipes, _, _ = socket.recv_fds(control, 65_536, 1)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            _run_in_fork(json.loads(data), pipes[0])
            os._exit(0)
        os.close(pipes[0])
        control.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        control.send(str(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
