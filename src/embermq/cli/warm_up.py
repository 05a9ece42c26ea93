"""`ember warm-up`: compile the kernels now, so that no start has to."""

from __future__ import annotations

import argparse
from typing import Any


def add_commands(nouns: Any) -> None:
    parser = nouns.add_parser(
        "warm-up",
        help="compile the engine now instead of while the next server starts",
        description="Compile the engine (extra `fast`) and keep its code, so that the next start finds it.",
        epilog="example: ember warm-up",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print JSON: seconds, folder, and whether it was compiled")
    parser.set_defaults(run=warm_up)


def warm_up(arguments: argparse.Namespace) -> int:
    import time

    from embermq.cli.output import print_json, print_line
    from embermq.kernels.cache_folder import make_private
    from embermq.kernels.loading import cache_directory, is_warm, load

    folder = cache_directory()
    make_private(folder)  # a load goes on without it, but then there is nothing to be kept
    was_warm, begin = is_warm(), time.monotonic()
    load()
    seconds = time.monotonic() - begin
    if arguments.json:
        print_json({"seconds": round(seconds, 3), "folder": str(folder), "compiled": not was_warm})
    else:
        done = "compiled already, loaded" if was_warm else "compiled"
        print_line(f"{done} in {seconds:.1f} s, kept in {folder}")
    return 0
