"""NameServerSettings: everything about a name server that can be set, and RocketMQ's names for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self

from embermq.errors import DiskFailed, NotPermitted, SettingsError
from embermq.files.durable import make_directory, read_with_backup, replace_file
from embermq.format.java_properties import decode_properties, format_properties
from embermq.model.setting import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerSettings:
    """How one name server works; replaced as a whole when one of them is changed at run time."""

    scan_interval_ms: int = setting(5_000, "ms", "how often brokers that went silent are looked for")
    broker_timeout_ms: int = setting(120_000, "ms", "a broker that says nothing for so long is forgotten")
    wait_for_service: bool = setting(False, "yes or no", "answer no route until brokers had time to register")
    wait_for_service_s: int = setting(45, "s", "the time they have, from the start on")
    topic_lists: bool = setting(True, "yes or no", "answer lists of topics by cluster or by kind")
    all_topics_list: bool = setting(True, "yes or no", "answer the list of all topics")
    order_topics: bool = setting(False, "yes or no", "add the fixed queues of an ordered topic to its route")
    order_topics_to_brokers: bool = setting(True, "yes or no", "tell brokers which topics are ordered")
    acting_master: bool = setting(False, "yes or no", "show the first copy of a lost master in its place, to read")
    delete_missing_topics: bool = setting(
        False, "yes or no", "forget the topics that a registration leaves out; brokers must then send all every time"
    )
    max_registration_size: int = setting(64 * 1024 * 1024, "bytes", "a registration that is larger is refused")
    max_key_values: int = setting(100_000, "count", "entries of the key-value table; more are refused")

    @classmethod
    def make(cls, values: Mapping[str, object]) -> Self:
        """Settings of these values, which may be text. Raises SettingsError that names the nearest known setting."""
        return cls().changed(values)

    def changed(self, values: Mapping[str, object]) -> Self:
        """These settings, some of them with other values. Raises SettingsError."""
        known = {field.name: field for field in dataclasses.fields(self)}
        for name in values:
            if name not in known:
                raise _unknown(name, known)
        changes: dict[str, Any] = {name: _convert(name, value, known[name].default) for name, value in values.items()}
        return dataclasses.replace(self, **changes)


ROCKETMQ_NAMES: Final = {
    "scanNotActiveBrokerInterval": "scan_interval_ms",
    "needWaitForService": "wait_for_service",
    "waitSecondsForService": "wait_for_service_s",
    "enableTopicList": "topic_lists",
    "enableAllTopicList": "all_topics_list",
    "orderMessageEnable": "order_topics",
    "returnOrderTopicConfigToBroker": "order_topics_to_brokers",
    "supportActingMaster": "acting_master",
    "deleteTopicWithBrokerRegistration": "delete_missing_topics",
}

# Nobody on the network decides where we write or what may be decided.
_NOT_REMOTE: Final = ("blacklist", "path", "home", "dir", "file", "address", "port")


class LiveSettings:
    """The settings in force. Those changed at run time are kept in a file, if there is one."""

    def __init__(
        self, settings: NameServerSettings, path: Path | None = None, *, fixed: Mapping[str, str] | None = None
    ) -> None:
        self._path = path
        self._fixed = dict(fixed or {})  # shown as they are: what only a restart changes
        self._changes: dict[str, str] = {}
        self.current = settings
        if path is not None:
            self._changes = read_with_backup(path, decode_properties) or {}
            self.current = settings.changed(_our_names(self._changes))

    def __call__(self) -> NameServerSettings:
        return self.current

    def change(self, values: Mapping[str, str]) -> None:
        """Change settings, given by RocketMQ's names. Raises NotPermitted or SettingsError, and changes nothing."""
        for name in values:
            if name.lower().endswith(_NOT_REMOTE):
                raise NotPermitted(f"setting {name[:80]!r} cannot be changed over the network; restart with it instead")
        settings = self.current.changed(_our_names(values))
        self._save({**self._changes, **values})
        self.current = settings

    def text(self) -> str:
        """All settings that RocketMQ knows, in its words."""
        values = {name: getattr(self.current, ours) for name, ours in ROCKETMQ_NAMES.items()}
        return format_properties({**self._fixed, **{name: str(value).lower() for name, value in values.items()}})

    def _save(self, changes: dict[str, str]) -> None:
        if self._path is not None:
            try:
                make_directory(self._path.parent)
                replace_file(self._path, format_properties(changes).encode(), keep_backup=True)
            except OSError as error:
                raise DiskFailed(self._path, error) from error
        self._changes = changes


def _our_names(values: Mapping[str, str]) -> dict[str, object]:
    for name in values:
        if name not in ROCKETMQ_NAMES:
            raise _unknown(name, ROCKETMQ_NAMES)
    return {ROCKETMQ_NAMES[name]: value for name, value in values.items()}


def _unknown(name: str, known: Mapping[str, object]) -> SettingsError:
    near = get_close_matches(name[:200], known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(sorted(known))}"
    return SettingsError(f"no setting {name[:80]!r} of a name server{hint}")


def _convert(name: str, value: object, default: object) -> object:
    if isinstance(value, str):
        text = value.strip().lower()
        if isinstance(default, bool) and text in ("true", "false"):
            value = text == "true"
        elif not isinstance(default, bool) and text.isascii() and text.isdecimal() and len(text) < 10:
            value = int(text)
    expected = bool if isinstance(default, bool) else int
    if type(value) is not expected or (expected is int and not 0 < value < 2**31):
        wanted = "true or false" if expected is bool else "a number from 1 to 2147483647"
        raise SettingsError(f"{name} is {str(value)[:80]!r}; {wanted} is expected")
    return value
