"""What a writer that will be killed puts, all of it made from a seed.

A message is known by its number, which it carries as a property. So whoever finds one in
a store, acknowledged or not, can tell what it must look like.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from embermq import Message
from tests.builders import SMALL_SIZES

TOPICS = ("orders", "bills", "clicks")
QUEUES = 4
LARGEST = 5_000
LARGEST_BATCH = 19
AFTERWARDS = 10**9  # from here on, numbers of messages that a check adds: one for every queue
NUMBER = "number"

# Files small enough to roll and expire within a second, and a disk that is never far behind.
SETTINGS: dict[str, Any] = {
    **SMALL_SIZES,
    "reserve_bytes": 0,
    "max_bytes": 2 * SMALL_SIZES["log_file_size"],
    "delete_pause_ms": 0,
    "commit_interval_ms": 5,
    "flush_interval_ms": 20,
}


class Step(NamedTuple):
    """One thing that a writer does."""

    action: Literal["put", "put_many", "checkpoint", "clean", "pause"]
    numbers: range = range(0)


def message_of(seed: int, number: int) -> Message:
    """The message with this number."""
    if number >= AFTERWARDS:
        queue, topic = divmod(number, len(TOPICS))
        return Message(TOPICS[topic], b"afterwards", properties={NUMBER: str(number)}, queue=queue % QUEUES)
    chance = random.Random(f"{seed}-{number}")
    size = chance.choice([0, 1, chance.randrange(200), chance.randrange(2_000), chance.randrange(LARGEST + 1)])
    keys = [f"only-{number}", f"some-{number % 7}"]
    return Message(
        chance.choice(TOPICS),
        chance.randbytes(size),
        tags=chance.choice([None, "red", "green"]),
        keys=keys[: chance.randrange(3)],
        properties={NUMBER: str(number)},
        queue=chance.choice([None, *range(QUEUES)]),
        flag=number,
    )


def iter_steps(seed: int, begin: int, count: int, *, only_puts: bool = False) -> Iterator[Step]:
    """`count` steps; the messages are numbered from `begin` on. The first is always a put."""
    chance = random.Random(f"{seed}-{begin}-steps")
    for number in range(count):
        weights = [60, 25, 0, 0, 0] if only_puts or not number else [60, 25, 5, 3, 7]
        action = chance.choices(["put", "put_many", "checkpoint", "clean", "pause"], weights=weights)[0]
        many = {"put": 1, "put_many": chance.randint(2, LARGEST_BATCH)}.get(action, 0)
        yield Step(action, range(begin, begin + many))  # type: ignore[arg-type]
        begin += many
