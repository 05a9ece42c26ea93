"""What all commands have in common that run a job: where its tasks run, and how far it is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from embermq.cli.connect import parse_count

if TYPE_CHECKING:
    from embermq.jobs.progress import Progress
    from embermq.jobs.running import Runner
    from embermq.server.settings import Settings


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Add `--spark` and `--workers`."""
    parser.add_argument(
        "--spark",
        metavar="MASTER",
        help="run on this Spark: local[*], spark://HOST:PORT, yarn, k8s://…, or sc://HOST:PORT for Spark Connect; "
        "without it in processes of this machine",
    )
    parser.add_argument(
        "--workers", metavar="N", type=parse_count, help="processes to run in, without --spark; one a core unless given"
    )


def read_config(arguments: argparse.Namespace) -> tuple[dict[str, object], Settings | None]:
    """What the options of a job say of the store, and all settings of the file that `--config` names."""
    given: dict[str, object] = {}
    read = None
    if arguments.config is not None:
        from embermq.cli.serve import read_settings
        from embermq.server.rocketmq_conf import read_broker_conf

        read = read_settings(arguments.config, read_broker_conf)
        given.update(read.store_values)
    if arguments.log_path:
        given["log_paths"] = tuple(arguments.log_path)
    return given, read


@contextmanager
def open_job(arguments: argparse.Namespace, job: str) -> Iterator[tuple[Runner, Progress]]:
    """Where the tasks of a job run, as `arguments` say, and who is told how far it is."""
    from embermq.jobs.progress import Progress, choose_show
    from embermq.jobs.running import open_runner

    with (
        Progress(job, choose_show(as_json=arguments.json)) as progress,
        open_runner(arguments.spark, workers=arguments.workers) as runner,
    ):
        yield runner, progress
