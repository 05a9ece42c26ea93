"""ember.toml."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from embermq.errors import SettingsError
from embermq.net.server import TlsMode
from embermq.server.settings_file import TABLES, parse_settings, read_settings_file


def a_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ember.toml"
    path.write_text(text)
    return path


def test_every_table(tmp_path: Path) -> None:
    settings = read_settings_file(
        a_file(
            tmp_path,
            """\
[server]
listen = "0.0.0.0"
name_servers = ["10.0.0.1:9876"]
[broker]
name = "broker-b"
long_polling = false
[store]
durability = "async"
retention_hours = 1.5
log_file_size = 65536
log_paths = ["a", "b"]
[tls]
mode = "enforcing"
certificate = "server.pem"
key = "server.key"
[access]
authentication = true
open_requests = [105]
""",
        )
    )
    assert (settings.server.listen, settings.server.name_servers) == ("0.0.0.0", ("10.0.0.1:9876",))
    assert (settings.broker().name, settings.broker().long_polling) == ("broker-b", False)
    store = settings.store()
    assert (store.durability, store.retention_hours, store.log_file_size) == ("async", 1.5, 65536)
    assert store.log_paths == ("a", "b")
    assert settings.tls.mode is TlsMode.ENFORCING
    assert (settings.access.authentication, settings.access.open_requests) == (True, (105,))


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    settings = read_settings_file(a_file(tmp_path, ""))
    assert settings == parse_settings({})
    assert (settings.server, settings.broker(), settings.store()) == tuple(
        TABLES[name]() for name in ("server", "broker", "store")
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[brokers]", "no table [brokers]; did you mean broker?"),
        ("[broker]\nnam = 'a'", "no setting 'nam' in [broker]; did you mean name?"),
        ("[store]\nretention_hour = 1", "did you mean retention_hours?"),
        ("[store]\nretention_hours = '1'", "retention_hours of [store] is '1'; a number is wanted"),
        ("[store]\nmax_message_size = 1.5", "a whole number is wanted"),
        ("[store]\nmax_message_size = true", "a whole number is wanted"),
        ("[store]\nlog_paths = 'a'", "a list is wanted"),
        ("[store]\nlog_paths = [1]", "an element of log_paths of [store] is 1; text is wanted"),
        ("[store]\ndurability = 'perhaps'", "sync, async or pooled is wanted"),
        ("[broker]\nlong_polling = 'yes'", "true or false is wanted"),
        ("[tls]\nmode = 'perhaps'", "disabled, permissive or enforcing is wanted"),
        ("[access]\nauthorization = true", "switch both on"),
        ("server = 1", "a table [server] is wanted"),
        ("[server", "is no TOML file"),
    ],
)
def test_a_mistake_is_told_with_its_file(tmp_path: Path, text: str, reason: str) -> None:
    path = a_file(tmp_path, text)
    with pytest.raises(SettingsError) as error:
        read_settings_file(path)
    assert str(error.value).startswith(str(path))
    assert reason in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings_file(tmp_path / "none.toml")


@pytest.mark.parametrize("table", TABLES)
def test_every_default_can_stand_in_a_file(table: str) -> None:
    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, str) else value

    defaults = {field.name: field.default for field in dataclasses.fields(TABLES[table])}
    values = {name: plain(value) for name, value in defaults.items() if value is not None}
    if table == "broker":
        values["permission"] = int(values["permission"])
    settings = parse_settings({table: values})
    made = {"broker": settings.broker(), "store": settings.store()}.get(table) or getattr(settings, table)
    assert made == TABLES[table]()


def test_every_setting_says_its_unit_and_what_it_does() -> None:
    for settings in TABLES.values():
        for field in dataclasses.fields(settings):
            assert set(field.metadata) == {"unit", "consequence"}, f"{settings.__name__}.{field.name}"
