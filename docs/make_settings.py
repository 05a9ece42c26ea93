"""Writes docs/settings.md from the settings themselves: python docs/make_settings.py"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from embermq.broker.settings import BrokerSettings
from embermq.nameserver.settings import NameServerSettings
from embermq.server.settings import AccessSettings, ServerSettings, TlsSettings
from embermq.store.settings import StoreSettings

HEAD = """# Settings

This page is made from the code: `python docs/make_settings.py`. An unknown name is an error that tells the nearest one.

`ember serve --config FILE` and `ember broker -c FILE` take either of two files. One whose name ends with `.toml` has
the names of this page, each in the table that its section names:

```toml
[server]
port = 10911

[broker]
cluster = "DefaultCluster"

[store]
durability = "sync"
retention_hours = 48
```

Any other is read as RocketMQ's `broker.conf` (or, by `ember namesrv -c FILE`, as its name server's properties), as
it is. What RocketMQ has and EmberMQ has no need of is listed in one warning. `ember broker -p` and `ember namesrv -p`
print all settings in RocketMQ's words.
"""

STORE_TEXT = """How a store works. The same names are given to `open_store(path, name=value, …)`. Sizes that are left
open are those of the files that are there, so that a directory made elsewhere opens as it is; for a new directory they
are RocketMQ's."""

NAME_SERVER_TEXT = """In RocketMQ's words in its properties file, or by `mqadmin updateNamesrvConfig`."""

SECTIONS: tuple[tuple[str, str, Any], ...] = (
    ("server", "Addresses and directories of a process.", ServerSettings),
    ("broker", "How a broker works.", BrokerSettings),
    ("store", STORE_TEXT, StoreSettings),
    ("tls", "How connections are encrypted.", TlsSettings),
    ("access", "Who is asked for credentials; see [security.md](security.md).", AccessSettings),
    ("name server", NAME_SERVER_TEXT, NameServerSettings),
)


def main() -> None:
    parts = [HEAD]
    for name, text, settings in SECTIONS:
        parts.append(f"\n## {name}\n\n{text}\n\n| setting | default | unit | what it does |\n|---|---|---|---|\n")
        parts += [_row(field) for field in dataclasses.fields(settings)]
    Path(__file__).with_name("settings.md").write_text("".join(parts))


def _row(field: dataclasses.Field[Any]) -> str:
    unit, consequence = field.metadata["unit"], field.metadata["consequence"]
    return f"| `{field.name}` | {_shown(field.default)} | {unit} | {consequence} |\n"


def _shown(default: object) -> str:
    if default is None:
        return "–"
    if isinstance(default, bool):
        return "yes" if default else "no"
    if default == ():
        return "none"
    return f"{default:,}".replace(",", " ") if isinstance(default, int) else f"`{default}`"


if __name__ == "__main__":
    main()
