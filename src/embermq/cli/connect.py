"""What commands share that talk to a cluster: how it is reached, how one is asked first, how values are given."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from embermq.admin.cluster import Cluster
    from embermq.client.client import AsyncClient

T = TypeVar("T")
Nouns = argparse._SubParsersAction  # the type has no public name

DEFAULT_NAMESRV: Final = "127.0.0.1:9876"
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def add_verb(
    verbs: Nouns[argparse.ArgumentParser],
    verb: str,
    run: Callable[[argparse.Namespace], int],
    purpose: str,
    *,
    example: str,
) -> argparse.ArgumentParser:
    """A command that talks to a cluster, with the options that all of them have."""
    parser = verbs.add_parser(
        verb,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=f"example: {example}",
        allow_abbrev=False,
    )
    # Suppressed, so that the option may stand before the noun as well.
    add_namesrv(parser, default=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=5.0, help="what one request may take (5)")
    parser.add_argument("--tls", action="store_true", help="connect with TLS and check certificates")
    parser.set_defaults(run=run)
    return parser


def add_namesrv(parser: argparse.ArgumentParser, *, default: str | None) -> None:
    parser.add_argument(
        "--namesrv",
        metavar="HOST:PORT[;…]",
        default=default,
        help=f"the name servers (EMBERMQ_NAMESRV, or {DEFAULT_NAMESRV})",
    )


def add_safety(parser: argparse.ArgumentParser) -> None:
    """The options of what cannot be undone."""
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be done")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run_with_cluster(arguments: argparse.Namespace, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Run `work` with the cluster that the command is for."""
    import asyncio

    from embermq.admin.cluster import Cluster

    async def run() -> T:
        async with Cluster(_namesrv(arguments), **_settings(arguments)) as cluster:
            return await work(cluster)

    return asyncio.run(run())


def run_with_client(arguments: argparse.Namespace, work: Callable[[AsyncClient], Awaitable[T]]) -> T:
    """Run `work` with a client of the cluster that the command is for."""
    import asyncio

    async def run() -> T:
        async with make_client(arguments) as client:
            return await work(client)

    return asyncio.run(run())


def make_client(arguments: argparse.Namespace) -> AsyncClient:
    """One more client of the cluster that the command is for."""
    from embermq.client.client import AsyncClient

    return AsyncClient(_namesrv(arguments), **_settings(arguments))


def _namesrv(arguments: argparse.Namespace) -> str:
    return arguments.namesrv or os.environ.get("EMBERMQ_NAMESRV") or DEFAULT_NAMESRV


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    # The secret comes from the environment alone: everybody on a machine can read its command lines.
    return {
        "access_key": os.environ.get("EMBERMQ_ACCESS_KEY"),
        "secret_key": os.environ.get("EMBERMQ_SECRET_KEY"),
        "tls": arguments.tls,
        "timeout": arguments.timeout,
    }


def confirm(arguments: argparse.Namespace, what: str) -> None:
    """Go on if somebody said so. Raises NotPermitted."""
    from embermq.errors import NotPermitted

    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise NotPermitted(f"{what}: not done, because nobody can be asked here; say --yes")
    print(f"{what}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotPermitted(f"{what}: not done")


def parse_count(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number from 1 on expected")
    return int(text)


def parse_directory(text: str) -> str:
    """A directory of this machine, for argparse: an address would only make a folder named after it."""
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a directory of this machine expected; copy what is elsewhere first"
        )
    return text


def parse_duration(text: str) -> timedelta:
    """`10m`, `1.5h`, `500ms`; for argparse."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: a number and ms, s, m, h or d expected, such as 10m")
    return float(match[1]) * _UNITS[match[2]]


def parse_time(text: str) -> datetime:
    """An ISO time, for argparse. One without a zone is local."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: a time such as 2026-11-01T12:00:00Z expected") from error


def parse_moment(text: str) -> datetime:
    """How long ago, such as `10m`, or an ISO time; for argparse. A time without a zone is local."""
    if _DURATION.fullmatch(text.strip()):
        return datetime.now(UTC) - parse_duration(text)
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r}: how long ago, such as 10m, or a time such as 2026-11-01T12:00:00Z expected"
        ) from error
