"""ember.toml: the settings of a process in EmberMQ's own words.

    [server]
    listen = "0.0.0.0"
    [broker]
    name = "broker-a"
    [store]
    durability = "sync"
    retention_hours = 72

Each table holds the settings of one class: [server], [tls] and [access] those of server/settings.py,
[broker] BrokerSettings, [store] StoreSettings. A name that is not there is an error with the nearest one.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from embermq.broker.settings import BrokerSettings
from embermq.errors import SettingsError
from embermq.server.settings import AccessSettings, ServerSettings, Settings, TlsSettings
from embermq.store.settings import StoreSettings

TABLES: Final[Mapping[str, type]] = {
    "server": ServerSettings,
    "broker": BrokerSettings,
    "store": StoreSettings,
    "tls": TlsSettings,
    "access": AccessSettings,
}
_WANTED: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def read_settings_file(path: Path) -> Settings:
    """The settings of the file at `path`. Raises SettingsError, which names the file, the table and the setting."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise SettingsError(f"{path} is no TOML file: {error}") from error
    try:
        return parse_settings(tables)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error


def parse_settings(tables: Mapping[str, object]) -> Settings:
    """The settings of the tables of a file. Raises SettingsError."""
    for name in tables:
        if name not in TABLES:
            raise SettingsError(f"no table [{name}]{_nearest(name, TABLES)}; there are {', '.join(TABLES)}")
    values = {name: _values(name, tables.get(name, {})) for name in TABLES}
    settings = Settings(
        server=ServerSettings(**values["server"]),
        broker_values=values["broker"],
        store_values=values["store"],
        tls=TlsSettings(**values["tls"]),
        access=AccessSettings(**values["access"]),
    )
    settings.broker()  # now, while it can still be said which file is wrong
    settings.store()
    return settings


def _values(table: str, found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise SettingsError(f"{table} is {found!r}; a table [{table}] is wanted")
    settings = TABLES[table]
    kinds = get_type_hints(settings)
    known = [field.name for field in dataclasses.fields(settings)]
    values = {}
    for name, value in found.items():
        if name not in known:
            raise SettingsError(f"no setting {name!r} in [{table}]{_nearest(name, known)}")
        values[name] = _check(f"{name} of [{table}]", value, kinds[name])
    return values


def _check(place: str, value: object, kind: Any) -> object:
    """`value` if it is of this kind, a list as a tuple. Raises SettingsError."""
    if get_origin(kind) is UnionType:  # something or nothing; TOML has no word for nothing
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is tuple:
        (element, _) = get_args(kind)
        if not isinstance(value, list):
            raise SettingsError(f"{place} is {value!r}; a list is wanted")
        return tuple(_check(f"an element of {place}", one, element) for one in value)
    if issubclass(kind, StrEnum):
        kind = str
    if kind is float and type(value) is int:
        return value
    if type(value) is not kind:
        raise SettingsError(f"{place} is {value!r}; {_WANTED[kind]} is wanted")
    return value


def _nearest(name: str, known: Mapping[str, object] | list[str]) -> str:
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
