"""How many messages a second a server takes from clients: python3 dev.py bench send

EmberMQ, Redis streams, NATS JetStream and RocketMQ, one after the other in interleaved rounds: messages of 1 KiB from a
compiled load generator that checks every answer (bench/loadgen), each server on one core and the generator on another.
RocketMQ may use all cores, and gets a longer warm-up for its compiler. The tables show medians, and what EmberMQ has to
the others as ratios: of messages a second, and of messages per second of the server's CPU time, which other work on the
machine disturbs less. Results also go to bench/results/send.json.
"""

from __future__ import annotations

import sys

from loadgen.generator import Shape, drive
from loadgen.peers import PEERS, Server
from loadgen.rounds import Rounds, Sample, parse_options, report

PAIRS = [
    ("ember-async", "redis-everysec"),
    ("ember-sync", "redis-always"),
    ("ember-async", "nats"),
    ("ember-async", "rocketmq"),
]
LONG_WARM_UP = 12.0  # seconds, once, for a server that stays


def main() -> int:
    assert __doc__ is not None
    names = [peer.name for peer in PEERS]
    options = parse_options(__doc__.splitlines()[0], peers=names, shapes="4x128,64x1", seconds=2)

    def visit(server: Server, shape: Shape) -> Sample:
        return drive(server, "send", shape, seconds=options.seconds)

    rounds = Rounds(options, prepare=warm_up, visit=visit)
    rounds.run()
    return report("send", rounds, PAIRS)


def warm_up(server: Server) -> None:
    if server.stays:
        drive(server, "send", Shape(4, 128), seconds=0.1, warmup=LONG_WARM_UP)


if __name__ == "__main__":
    sys.exit(main())
