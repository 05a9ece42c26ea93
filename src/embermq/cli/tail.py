"""`ember tail`: the newest messages of a topic, and those that come."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from embermq.cli.connect import Nouns, add_verb, parse_moment, run_with_client

if TYPE_CHECKING:
    from embermq.client.client import AsyncClient

_DEFAULT_COUNT = 10


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        nouns,
        "tail",
        tail,
        "the newest messages of a topic; no group is joined and no offset moves",
        example="ember tail orders --since 10m --filter 'eu || us' -f",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--since", metavar="TIME", type=parse_moment, help="from then on: 10m for ten minutes ago, or an ISO time"
    )
    parser.add_argument("--filter", metavar="EXPR", help="tags such as 'eu || us', or SQL92")
    parser.add_argument(
        "-n", "--count", metavar="N", type=int, help=f"only the newest N ({_DEFAULT_COUNT}, all with --since)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes, until Ctrl-C")


def tail(arguments: argparse.Namespace) -> int:
    from embermq.cli.message import message_facts, message_line
    from embermq.cli.output import print_json, print_line

    count = arguments.count
    if count is None and arguments.since is None:
        count = _DEFAULT_COUNT

    async def work(client: AsyncClient) -> None:
        messages = client.read(
            arguments.topic,
            since=arguments.since,
            filter=arguments.filter,
            last=count,
            follow=arguments.follow,
        )
        async for message in messages:
            if arguments.json:
                print_json(message_facts(message), flush=arguments.follow)
            else:
                print_line(message_line(message), flush=arguments.follow)

    run_with_client(arguments, work)
    return 0
