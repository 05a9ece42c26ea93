"""A broker that publishes staged batches is killed at a chosen system call; a writer then does what Spark does.

    python -m tests.crash.staging <directory> <durability> plain|kernels <share> [<share> …]

It publishes by plain code, or by kernels. Each share is `n/m`: of all points at which the broker could be killed, every
m-th from the n-th on. For each, a fork runs `write` until it dies there, another opens the directory again and runs
`check`. A line is printed for every point whose check failed, and one in the end: `checked <points> of <all>, killed
<brokers>`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from embermq.broker.broker import Broker
from embermq.kernels import loading
from tests.builders import SMALL_SIZES
from tests.crash.faults import CALLS, DEATHS, TEARABLE, Faults
from tests.unit.broker.brokers import Client, with_broker
from tests.unit.broker.staging import a_staged, find, publish, seen, stage

BATCHES = 2
TASKS = 2
CHUNKS = 2
MESSAGES = 40  # of a chunk; a batch fills more than one log file
BODY_SIZE = 500
QUEUES = 4


class Point(NamedTuple):
    """Where the broker dies."""

    call: str
    at: int
    moment: str


def bodies_of(batch: int) -> list[bytes]:
    return [b"%d/%d " % (batch, number) + b"." * BODY_SIZE for number in range(TASKS * CHUNKS * MESSAGES)]


async def stage_batch(client: Client, batch: int, *, attempt: str) -> list[tuple[str, int, int]]:
    """Stage all of a batch, under names of this attempt; its tasks."""
    bodies = bodies_of(batch)
    for chunk in range(CHUNKS):
        for task in range(TASKS):
            begin = (task * CHUNKS + chunk) * MESSAGES
            messages = [a_staged(body, queue=begin % QUEUES) for body in bodies[begin : begin + MESSAGES]]
            answer = await stage(client, f"{attempt}-{batch}-{task}", chunk, *messages)
            assert answer.code == 0, answer
    return [(f"{attempt}-{batch}-{task}", CHUNKS, CHUNKS * MESSAGES) for task in range(TASKS)]


async def write(broker: Broker) -> None:
    """Some other message, and two batches."""
    client = Client(broker)
    await client.send("others", b"before")
    for batch in range(BATCHES):
        answer = await publish(client, batch, await stage_batch(client, batch, attempt="first"))
        assert answer.fields["isNew"] == "true", answer
        await client.send("others", b"between")


async def check(broker: Broker) -> None:
    """After a kill each batch is seen whole or not at all; written again, it is there once."""
    client = Client(broker)
    for batch in range(BATCHES):
        state = (await find(client, batch))["state"]
        if state == "none":
            assert not set(bodies_of(batch)) & set(seen(broker.store)), f"batch {batch} is seen, and not promised"
        tasks = await stage_batch(client, batch, attempt="second")
        answer = await publish(client, batch, tasks)
        assert answer.code == 0, answer
        assert (answer.fields["isNew"] == "true") == (state == "none"), (state, answer)
    wanted = Counter(body for batch in range(BATCHES) for body in bodies_of(batch))
    found = Counter(seen(broker.store))
    assert found == wanted, f"lost {(wanted - found).total()}, too many {(found - wanted).total()}"


def run(path: Path, durability: str, work: Callable[[Broker], object]) -> None:
    settings = {**SMALL_SIZES, "log_file_size": 65_536, "durability": durability, "prepare_files": False}
    with_broker(path, work, with_kernels=loading.is_loaded(), **settings)  # type: ignore[arg-type]


def in_fork(work: Callable[[], None], *, say: Callable[[str], None] = lambda words: None) -> int:
    """Run `work` in a fork; how that ended, as os.waitpid says it."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        say(traceback.format_exc())
    finally:
        os._exit(code)


def count_calls(path: Path, durability: str) -> Counter[str]:
    """How often a broker that is not killed makes each call."""
    report = path.with_name("calls.json")

    def work() -> None:
        with Faults() as faults:
            run(path, durability, write)
            report.write_text(json.dumps(faults.counts))

    assert in_fork(work, say=print) == 0
    return Counter(json.loads(report.read_text()))


def points_of(counts: Counter[str]) -> list[Point]:
    return [
        Point(call, at, moment)
        for call in CALLS
        for at in range(1, counts[call] + 1)
        for moment in ("before", "after", *(["halfway"] if call in TEARABLE else []))
    ]


def try_point(path: Path, durability: str, point: Point) -> bool:
    """Kill a broker there and check what is left; False if it did not come that far."""

    def victim() -> None:
        with Faults() as faults:
            faults.add(DEATHS[point.moment], call=point.call, at=point.at)
            run(path, durability, write)

    was_killed = os.WIFSIGNALED(in_fork(victim))
    failed = in_fork(lambda: run(path, durability, check), say=lambda words: print(f"FAILED {point}\n{words}"))
    if failed:
        print(f"failed {point}", flush=True)
    return was_killed


def main(root: Path, durability: str, shares: list[str]) -> None:
    points = points_of(count_calls(root / "counted", durability))
    killed = checked = 0
    for share in shares:
        first, step = map(int, share.split("/"))
        for point in points[first::step]:
            path = root / "store"
            shutil.rmtree(path, ignore_errors=True)
            killed += try_point(path, durability, point)
            checked += 1
    print(f"checked {checked} of {len(points)}, killed {killed}", flush=True)


if __name__ == "__main__":
    if sys.argv[3] == "kernels":
        loading.load()  # for all forks
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[4:])
