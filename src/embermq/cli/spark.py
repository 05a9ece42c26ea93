"""`ember spark …`: a Spark cluster on this machine, for tests and trials."""

from __future__ import annotations

import argparse

from embermq.cli.connect import Nouns, parse_count


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    noun = nouns.add_parser(
        "spark", help="a Spark cluster on this machine", description="Spark on this machine.", allow_abbrev=False
    )
    verbs = noun.add_subparsers(title="verbs", metavar="VERB", required=True)
    parser = verbs.add_parser(
        "cluster",
        help="start a standalone cluster, until Ctrl-C",
        description="Start a standalone Spark cluster for tests and trials, until Ctrl-C.",
        epilog="example: ember spark cluster --workers 2",
        allow_abbrev=False,
    )
    parser.add_argument("--workers", metavar="N", type=parse_count, default=2, help="how many (2)")
    parser.add_argument("--cores", metavar="N", type=parse_count, default=1, help="of each worker (1)")
    parser.add_argument("--memory", metavar="SIZE", default="1g", help="of each worker, for executors (1g)")
    parser.add_argument("--port", metavar="PORT", type=int, default=7077, help="of the master (7077); 0: any free one")
    parser.set_defaults(run=run_cluster)


def run_cluster(arguments: argparse.Namespace) -> int:
    import signal
    import threading
    from contextlib import suppress

    from embermq.cli.output import print_line
    from embermq.jobs.spark_modules import import_spark_module

    cluster = import_spark_module("local_cluster", what="a cluster needs")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    size = cluster.ClusterSize(arguments.workers, arguments.cores, arguments.memory)
    with cluster.local_cluster(size, port=arguments.port) as master, suppress(KeyboardInterrupt):
        text = f"ready master={master} workers={size.workers} cores={size.cores} memory={size.memory}"
        print_line(text, flush=True)
        threading.Event().wait()
    return 0
