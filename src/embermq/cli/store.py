"""`ember store …`: work on a directory. Only `rebuild` and `compact` change anything; others do not mind an owner."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from embermq.cli import store_compact, store_compare, store_rebuild
from embermq.cli.connect import parse_directory
from embermq.cli.job_options import add_job_options
from embermq.cli.store_verify import verify

if TYPE_CHECKING:
    from embermq.format.record import Record
    from embermq.store.reader import StoreReader

_SHOWN_BODY = 60  # bytes of a body in a line

Nouns = argparse._SubParsersAction  # the type has no public name


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    noun = nouns.add_parser(
        "store",
        help="look into a store's directory; no broker is needed",
        description="Look into a store's directory, RocketMQ's or EmberMQ's, also while its owner works on it.",
        allow_abbrev=False,
    )
    verbs = noun.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add(verbs, "info", info, "log, files, and the smallest and the next offset of every queue")
    _add(verbs, "dump", dump, "every record, in the order of the log")
    add_job_options(
        _add(verbs, "verify", verify, "check every record, queue entry and key; exit code 1 if something is damaged")
    )
    store_rebuild.add_options(
        _add(verbs, "rebuild", store_rebuild.rebuild, "make queues and index anew from the log; the old are kept aside")
    )
    store_compact.add_options(
        _add(verbs, "compact", store_compact.compact, "keep the newest message of each key of compacted topics")
    )
    store_compare.add_command(verbs)


def _add(
    verbs: Nouns[argparse.ArgumentParser], verb: str, run: Callable[[argparse.Namespace], int], purpose: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        verb,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=f"example: ember store {verb} ./ember-data --json",
        allow_abbrev=False,
    )
    parser.add_argument("dir", metavar="DIR", type=parse_directory, help="the store's directory")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    parser.add_argument(
        "--log-path",
        metavar="DIR",
        action="append",
        default=[],
        help="where the log's files are, if not in DIR/commitlog; once for each directory",
    )
    parser.set_defaults(run=run)
    return parser


def info(arguments: argparse.Namespace) -> int:
    from embermq.cli.output import count_of, print_json, print_line, print_note, print_table
    from embermq.files.lock import is_locked
    from embermq.store.verify_queues import ROCKSDB_SIGN

    with _open(arguments) as reader:
        queues = reader.queues()
        in_use = is_locked(reader.path)
        if arguments.json:
            print_json(_info_facts(reader, in_use=in_use))
            return 0
        files = count_of(len(reader.files), "file")
        state = "in use" if in_use else "closed" if reader.is_clean else "not closed cleanly; opening it recovers it"
        print_line(f"store  {reader.path}, {state}")
        print_line(f"log    from {reader.begin} to {reader.end}, {files} of {reader.layout.log_file_size} bytes")
        if queues:
            print_line("")
            print_table(("topic", "queue", "min", "max"), queues)
        if (reader.path / ROCKSDB_SIGN).is_file():
            print_note("the queues are in a RocksDB, which is not read")
    return 0


def _info_facts(reader: StoreReader, *, in_use: bool) -> dict[str, object]:
    topics: dict[str, dict[str, dict[str, int]]] = {}
    for topic, queue, low, high in reader.queues():
        topics.setdefault(topic, {})[str(queue)] = {"min": low, "max": high}
    return {
        "path": str(reader.path),
        "begin": reader.begin,
        "end": reader.end,
        "fileSize": reader.layout.log_file_size,
        "files": [{"path": str(file.path), "begin": file.start, "size": file.size} for file in reader.files],
        "inUse": in_use,
        "clean": reader.is_clean,
        "topics": topics,
    }


def dump(arguments: argparse.Namespace) -> int:
    from embermq.cli.output import print_json, print_line
    from embermq.format.record_facts import record_facts

    with _open(arguments) as reader:
        for record in reader.iter_records():
            if arguments.json:
                print_json(record_facts(record))
            else:
                print_line(_record_line(record))
    return 0


def _record_line(record: Record) -> str:
    from embermq.cli.output import format_time
    from embermq.model.properties import KEYS, TAGS

    properties = record.property_map()
    marks = "".join(
        f" {word}={properties[name]}" for word, name in (("tags", TAGS), ("keys", KEYS)) if name in properties
    )
    body = record.body[:_SHOWN_BODY].decode(errors="backslashreplace")
    more = f"… {len(record.body)} bytes" if len(record.body) > _SHOWN_BODY else ""
    place = f"{record.position:>12}  {record.topic}/{record.queue}/{record.offset}"
    return f"{place}  {format_time(record.store_time)}{marks}  {body}{more}"


def _open(arguments: argparse.Namespace) -> StoreReader:
    from embermq.store.reader import StoreReader
    from embermq.store.settings import StoreSettings

    return StoreReader(arguments.dir, StoreSettings(log_paths=tuple(arguments.log_path)))
