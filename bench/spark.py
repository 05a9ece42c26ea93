"""Spark over EmberMQ, in four parts: python3 dev.py bench spark [reads] [stream] [memory] [sink]

    reads    a log beside Parquet with the same rows, in rounds that take turns
    stream   how long a message takes from its put to a committed sink, at 5 000 messages a second
    memory   what a read of 6 GiB needs
    sink     rows a second into a topic, whole or not at all

Each part is a program of its own (bench/pipeline). Results go to bench/results/spark.json, where a part that is not
measured keeps what it had, and to docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from bench.pipeline.results import write_page
from bench.servers.ember import warm_up

PARTS = ("reads", "stream", "memory", "sink")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all of them unless some are named")
    options, rest = parser.parse_known_args()
    warm_up()
    for part in options.parts or PARTS:
        print(f"-- {part}", flush=True)
        done = subprocess.run([sys.executable, "-m", f"bench.pipeline.{part}", *rest], env=os.environ, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)
    write_page()


if __name__ == "__main__":
    main()
