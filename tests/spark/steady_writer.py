"""A program that writes to a store at a steady rate until its standard input is closed; then it says how many.

python steady_writer.py <store> <topic> <messages a second>
"""

from __future__ import annotations

import select
import sys
import time

from embermq import Message, open_store

TURN_S = 0.02


def main(path: str, topic: str, rate: str) -> None:
    written, began = 0, time.monotonic()
    body = b"x" * 1000
    with open_store(path, durability="async") as store:
        while not select.select([sys.stdin], [], [], TURN_S)[0]:
            due = int((time.monotonic() - began) * float(rate))
            store.put_many([Message(topic, b"%d " % number + body) for number in range(written, due)])
            written = due
    print(written)


if __name__ == "__main__":
    main(*sys.argv[1:])
