"""The writer's load inside of the test's own process, for faults that do not kill."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embermq import Store, open_store
from embermq.errors import EmberError
from tests.crash.plan import iter_steps, message_of
from tests.crash.victim import Acknowledged


@dataclass(slots=True)
class Report:
    """How a load ended."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    refused: list[tuple[int, Exception]] = field(default_factory=list)  # number of the message, and why
    troubles: list[tuple[str, Exception]] = field(default_factory=list)  # what else was asked for, and raised


def put_by_plan(store: Store, seed: int, steps: int, report: Report, *, begin: int = 0) -> None:
    """Do the steps of a plan, and go on after every failure."""
    for step in iter_steps(seed, begin, steps):
        messages = [message_of(seed, number) for number in step.numbers]
        try:
            match step.action:
                case "put" | "put_many":
                    for number, receipt in zip(step.numbers, store.put_many(messages), strict=True):
                        crc = zlib.crc32(message_of(seed, number).body)
                        report.acknowledged.append(
                            Acknowledged(number, receipt.queue, receipt.offset, receipt.position, crc)
                        )
                case "checkpoint":
                    store.checkpoint()
                case "clean" if store.state().log_files:
                    store.clean()
        except (EmberError, OSError) as error:
            report.refused += [(number, error) for number in step.numbers]
            if not step.numbers:
                report.troubles.append((step.action, error))


def run_load(path: Path, settings: dict[str, Any], seed: int, steps: int) -> Report:
    """Open, do the steps, close; whatever an unreliable disk makes of it."""
    report = Report()
    try:
        store = open_store(path, **settings)
    except (EmberError, OSError) as error:
        report.troubles.append(("open", error))
        return report
    put_by_plan(store, seed, steps, report)
    try:
        store.close()
    except (EmberError, OSError) as error:
        report.troubles.append(("close", error))
    return report
