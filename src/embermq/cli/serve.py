"""`ember serve`, `ember namesrv` and `ember broker`: the processes that others connect to."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embermq.cli.output import print_note

if TYPE_CHECKING:
    from embermq.server.settings import Settings

EXAMPLE = "example: ember serve --data /var/lib/ember --durability sync"


def add_commands(nouns: Any) -> None:
    serve = nouns.add_parser("serve", help="name server and broker in one process", epilog=EXAMPLE, allow_abbrev=False)
    serve.add_argument("--data", metavar="DIR", help="directory of messages and tables (./ember-data)")
    serve.add_argument("--listen", metavar="HOST:PORT", help="address of the broker (127.0.0.1:10911); port 0: any")
    serve.add_argument("--namesrv-listen", metavar="HOST:PORT", help="address of the name server (127.0.0.1:9876)")
    serve.add_argument("--durability", choices=("sync", "async", "pooled"), help="what holds when a send returns")
    serve.add_argument("--config", "-c", metavar="FILE", help="ember.toml, or RocketMQ's broker.conf")
    _add_security(serve)
    serve.set_defaults(run=run_serve)

    namesrv = nouns.add_parser(
        "namesrv", help="a name server", epilog="example: ember namesrv -c namesrv.conf", allow_abbrev=False
    )
    namesrv.add_argument("-c", "--config", metavar="FILE", help="RocketMQ's properties file, or ember.toml")
    namesrv.add_argument("--listen", metavar="HOST:PORT", help="address of the name server (127.0.0.1:9876)")
    namesrv.add_argument("-p", "--print-config", action="store_true", help="print all settings and end")
    _add_security(namesrv)
    namesrv.set_defaults(run=run_namesrv)

    broker = nouns.add_parser(
        "broker", help="a broker", epilog="example: ember broker -c broker.conf -n 127.0.0.1:9876", allow_abbrev=False
    )
    broker.add_argument("-c", "--config", metavar="FILE", help="RocketMQ's broker.conf, or ember.toml")
    broker.add_argument("-n", "--namesrv", metavar="HOST:PORT[;…]", help="the name servers to register with")
    broker.add_argument("-p", "--print-config", action="store_true", help="print all settings and end")
    broker.add_argument("--data", metavar="DIR", help="directory of messages and tables")
    broker.add_argument("--listen", metavar="HOST:PORT", help="address of the broker (127.0.0.1:10911)")
    broker.add_argument("--durability", choices=("sync", "async", "pooled"), help="what holds when a send returns")
    _add_security(broker)
    broker.set_defaults(run=run_broker)


def _add_security(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--insecure-public", action="store_true", help="listen on a public address although nobody must sign in"
    )
    parser.add_argument("--access", action="store_true", help="let in only who signs requests, by the rules of users")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))


def run_serve(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    return _run(settings, arguments, with_broker=True, with_name_server=True)


def run_namesrv(arguments: argparse.Namespace) -> int:
    from embermq.server.process import parse_host
    from embermq.server.rocketmq_conf import name_server_properties, read_name_server_conf
    from embermq.server.settings import Settings

    settings = read_settings(arguments.config, read_name_server_conf) if arguments.config else Settings()
    if arguments.listen:
        host = parse_host(arguments.listen)
        settings = _with_server(settings, name_server_listen=host.address, name_server_port=host.port)
    if arguments.print_config:
        return _print(name_server_properties(settings.server))
    return _run(settings, arguments, with_broker=False, with_name_server=True)


def run_broker(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    if arguments.namesrv:
        settings = _with_server(settings, name_servers=tuple(filter(None, arguments.namesrv.split(";"))))
    if arguments.print_config:
        from embermq.server.rocketmq_conf import broker_properties

        return _print(broker_properties(settings))
    return _run(settings, arguments, with_broker=True, with_name_server=False)


def _settings(arguments: argparse.Namespace) -> Settings:
    """The settings of the file, with those of the command line laid over them."""
    from embermq.server.process import parse_host
    from embermq.server.rocketmq_conf import read_broker_conf
    from embermq.server.settings import Settings

    settings = read_settings(arguments.config, read_broker_conf) if arguments.config else Settings()
    if arguments.data:
        settings = _with_server(settings, store_path=arguments.data)
    if arguments.listen:
        host = parse_host(arguments.listen)
        settings = _with_server(settings, listen=host.address, port=host.port)
    if getattr(arguments, "namesrv_listen", None):
        host = parse_host(arguments.namesrv_listen)
        settings = _with_server(settings, name_server_listen=host.address, name_server_port=host.port)
    if arguments.durability:
        values = {**settings.store_values, "durability": arguments.durability}
        settings = dataclasses.replace(settings, store_values=values)
    return settings


def read_settings(path: str, read_properties: Any) -> Settings:
    """The settings of a file: TOML if it is named so, else RocketMQ's properties."""
    from embermq.server.settings_file import read_settings_file

    settings: Settings = read_settings_file(Path(path)) if path.endswith(".toml") else read_properties(Path(path))
    return settings


def _with_server(settings: Settings, **values: Any) -> Settings:
    return dataclasses.replace(settings, server=dataclasses.replace(settings.server, **values))


def _print(values: dict[str, str]) -> int:
    for name, value in sorted(values.items()):
        print(f"{name}={value}")
    return 0


def _run(settings: Settings, arguments: argparse.Namespace, *, with_broker: bool, with_name_server: bool) -> int:
    import asyncio
    import gc
    import logging

    from embermq.server.logs import set_up_logs
    from embermq.server.process import Process

    set_up_logs(arguments.log_level)
    if arguments.access:
        access = dataclasses.replace(settings.access, authentication=True, authorization=True)
        settings = dataclasses.replace(settings, access=access)
    if settings.unused:
        names = ", ".join(settings.unused)
        logging.getLogger(__name__).warning("settings of RocketMQ that EmberMQ has no need of names=%s", names)

    async def serve() -> None:
        process = Process(
            settings,
            with_broker=with_broker,
            with_name_server=with_name_server,
            insecure_public=arguments.insecure_public,
        )

        def announce(line: str) -> None:
            # What is there now stays for good, and messages make no cycles: look for garbage among them seldom.
            gc.freeze()
            gc.set_threshold(100_000, 20, 50)
            print(line, flush=True)

        await process.run(announce, say=print_note)

    asyncio.run(serve())
    return 0
