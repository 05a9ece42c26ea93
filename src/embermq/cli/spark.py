"""`ember spark …`: a Spark cluster on this machine, for tests and trials."""

from __future__ import annotations

import argparse
import importlib
from typing import Final

from embermq.cli.connect import Nouns

_CLUSTER: Final = "embermq_spark.local_cluster"  # by name: nothing of embermq imports what needs Spark


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
    parser.add_argument("--workers", metavar="N", type=_count, default=2, help="how many (2)")
    parser.add_argument("--cores", metavar="N", type=_count, default=1, help="of each worker (1)")
    parser.add_argument("--memory", metavar="SIZE", default="1g", help="of each worker, for executors (1g)")
    parser.add_argument("--port", metavar="PORT", type=int, default=7077, help="of the master (7077); 0: any free one")
    parser.set_defaults(run=run_cluster)


def run_cluster(arguments: argparse.Namespace) -> int:
    import signal
    import threading
    from contextlib import suppress

    from embermq.cli.output import print_line
    from embermq.errors import SettingsError

    try:
        cluster = importlib.import_module(_CLUSTER)
    except ImportError as error:
        raise SettingsError(f"a cluster needs PySpark ({error}); pip install 'embermq[spark]'") from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    size = cluster.ClusterSize(arguments.workers, arguments.cores, arguments.memory)
    with cluster.local_cluster(size, port=arguments.port) as master, suppress(KeyboardInterrupt):
        text = f"ready master={master} workers={size.workers} cores={size.cores} memory={size.memory}"
        print_line(text, flush=True)
        threading.Event().wait()
    return 0


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: at least 1")
    return number
