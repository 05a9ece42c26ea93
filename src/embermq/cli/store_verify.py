"""`ember store verify`: what is damaged, where, and which messages that hides."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from embermq.cli.job_options import open_job
from embermq.interrupts import minding_interrupts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embermq.store.verify import Damage, Hidden, Verdict

_SHOWN_RANGES: Final = 3  # of messages that a damage hides, in a line


@minding_interrupts()
def verify(arguments: argparse.Namespace) -> int:
    from embermq.cli.output import print_note
    from embermq.jobs.verify import verify as verify_in_parallel
    from embermq.store.settings import StoreSettings

    settings = StoreSettings(log_paths=tuple(arguments.log_path))
    with open_job(arguments, "verify") as (runner, progress):
        verdict = verify_in_parallel(arguments.dir, runner=runner, progress=progress, settings=settings)
    if arguments.json:
        _print_facts(verdict)
    else:
        _print_table(verdict)
    if not verdict.sound and not verdict.is_clean:
        print_note("the store was not closed cleanly; opening it repairs what a crash can leave")
    return 0 if verdict.sound else 1


def _print_facts(verdict: Verdict) -> None:
    from embermq.cli.output import print_json

    damage = [_facts(each) for each in verdict.damage]
    print_json({"sound": verdict.sound, "records": verdict.records, "bytes": verdict.bytes, "damage": damage})


def _facts(damage: Damage) -> dict[str, object]:
    return {
        "file": damage.file,
        "position": damage.position,
        "kind": damage.kind,
        "detail": damage.detail,
        "hides": [hidden._asdict() for hidden in damage.hides],
    }


def _print_table(verdict: Verdict) -> None:
    from embermq.cli.output import count_of, print_table, print_verdict

    if verdict.damage:
        rows = [
            (each.file, each.position, each.kind, format_hidden(each.hides), each.detail) for each in verdict.damage
        ]
        print_table(("file", "position", "kind", "hides", "detail"), rows)
    what = f"{count_of(verdict.records, 'record')}, {count_of(verdict.bytes, 'byte')}"
    if verdict.sound:
        print_verdict(f"sound: {what}", is_good=True)
    else:
        print_verdict(f"damaged: {count_of(len(verdict.damage), 'damage')} in {what}", is_good=False)


def format_hidden(hidden: Sequence[Hidden]) -> str:
    """`orders/0 12-15, clicks/2 7`: topic, queue and offsets; `-` if nothing is known to be hidden."""
    if not hidden:
        return "-"
    shown = [
        f"{each.topic}/{each.queue} {each.begin}" + (f"-{each.end - 1}" if each.end - each.begin > 1 else "")
        for each in hidden[:_SHOWN_RANGES]
    ]
    more = len(hidden) - _SHOWN_RANGES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
