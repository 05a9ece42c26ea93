"""The command `ember <noun> <verb>`: what it understands, and what it answers the shell.

    0 fine   1 failed or damage found   2 wrong usage   3 not found   4 refused   5 timed out

Data goes to stdout, words to stderr; an error is one line. Nouns import what they work with when
they run, so that `ember --version` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from enum import IntEnum

from embermq import __version__
from embermq.cli import archive, bench, delay, group, message, report, send, serve, spark, store, tail, topic, warm_up
from embermq.cli.connect import add_namesrv


class ExitCode(IntEnum):
    """What the shell is told."""

    FINE = 0
    FAILED = 1  # or damage was found
    WRONG_USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    TIMED_OUT = 5
    INTERRUPTED = 130


def build_parser() -> argparse.ArgumentParser:
    """The whole tree of commands."""
    parser = argparse.ArgumentParser(
        prog="ember", description="EmberMQ: a RocketMQ-compatible message store and broker.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"ember {__version__}")
    add_namesrv(parser, default=None)
    nouns = parser.add_subparsers(title="commands", metavar="NOUN", required=True)
    for noun in (serve, topic, group, send, tail, message, delay, store, archive, report, spark, bench, warm_up):
        noun.add_commands(nouns)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        try:
            arguments = build_parser().parse_args(argv)
            code = arguments.run(arguments)
        except SystemExit as ended:  # of the parser: --help, --version or wrong usage
            code = ended.code
        sys.stdout.flush()  # here, because nobody would catch what goes wrong at exit
        return int(code or ExitCode.FINE)
    except BrokenPipeError:
        # Whoever read our output has seen enough. What is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FINE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:
        return _answer(error)


def _answer(error: Exception) -> ExitCode:
    """Say in one line what went wrong; what we did not foresee is raised on."""
    from embermq.errors import EmberError

    if not isinstance(error, EmberError | OSError):
        raise error
    print(f"ember: {' '.join(str(error).split())}", file=sys.stderr)
    return _code_of(error)


def _code_of(error: Exception) -> ExitCode:
    from embermq import errors
    from embermq.archive.errors import ArchiveBusy, ArchiveMismatch, ArchiveMissing, TopicAbsent
    from embermq.jobs.errors import NoRoom, NotCompacted, TargetExists

    match error:
        case errors.StoreMissing() | errors.TopicNotFound() | errors.GroupNotFound() | errors.MessageNotFound():
            return ExitCode.NOT_FOUND
        case errors.NotOnline() | FileNotFoundError():
            return ExitCode.NOT_FOUND
        case errors.StoreLocked() | errors.StoreReadOnly() | PermissionError():
            return ExitCode.REFUSED
        case ArchiveMissing() | TopicAbsent():
            return ExitCode.NOT_FOUND
        case TargetExists() | NoRoom() | NotCompacted() | ArchiveMismatch() | ArchiveBusy():
            return ExitCode.REFUSED
        case errors.NotPermitted() | errors.NotSupported() | errors.Refused():
            return ExitCode.REFUSED
        case errors.SettingsError():
            return ExitCode.WRONG_USAGE
        case errors.FlushTimeout() | errors.CallTimeout() | TimeoutError():
            return ExitCode.TIMED_OUT
        case _:
            return ExitCode.FAILED
