"""Writes docs/settings.md from the settings themselves: python docs/make_settings.py"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from embermq.store.settings import StoreSettings

HEAD = """# Settings of a store

Given by name to `open_store(path, name=value, …)`. An unknown name is an error that tells the nearest known one. Sizes
that are left open are those of the files that are there, so that a directory made elsewhere opens as it is; for a new
directory they are RocketMQ's. This page is made from the code: `python docs/make_settings.py`.

| setting | default | unit | what it does |
|---|---|---|---|
"""


def main() -> None:
    rows = [
        f"| `{field.name}` | {_shown(field.default)} | {field.metadata['unit']} | {field.metadata['consequence']} |\n"
        for field in dataclasses.fields(StoreSettings)
    ]
    Path(__file__).with_name("settings.md").write_text(HEAD + "".join(rows))


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
