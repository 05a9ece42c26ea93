"""How many messages a second a server gives to consumers: python3 dev.py bench consume

The servers and the generator of `send`. Every server is filled with messages of 1 KiB in 4 queues, which are then read
from the first to the last and again, 32 per request: pulls of RocketMQ's protocol, XRANGE of Redis, fetches of a NATS
consumer without acknowledgements. Every answer must hold the messages that were asked for. Results also go to
bench/results/consume.json.
"""

from __future__ import annotations

import sys

from loadgen.generator import Shape, drive, fill
from loadgen.peers import Server
from loadgen.rounds import Rounds, Sample, parse_options, report

NAMES = ["ember-async", "redis-everysec", "nats", "rocketmq"]  # how a message was flushed does not matter here
PAIRS = [("ember-async", other) for other in NAMES[1:]]
MESSAGES = 120_000
LONG_WARM_UP = 10.0  # seconds, once, for a server that stays


def main() -> int:
    assert __doc__ is not None
    options = parse_options(__doc__.splitlines()[0], peers=NAMES, shapes="4x8,16x1", seconds=2)

    def visit(server: Server, shape: Shape) -> Sample:
        return drive(server, "consume", shape, seconds=options.seconds, limit=MESSAGES)

    rounds = Rounds(options, prepare=prepare, visit=visit)
    rounds.run()
    return report("consume", rounds, PAIRS)


def prepare(server: Server) -> None:
    fill(server, MESSAGES)
    if server.stays:
        drive(server, "consume", Shape(4, 8), seconds=0.1, warmup=LONG_WARM_UP, limit=MESSAGES)


if __name__ == "__main__":
    sys.exit(main())
