"""The settings of a running broker: what they are, and which of them may be changed from afar.

Only what is on the list can be changed: nothing that names a path, a program, a class or a user. A
change is all or nothing, holds from the next request on, and until the broker is stopped.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Mapping
from typing import Final

from embermq.broker.settings import BrokerSettings
from embermq.clock import Clock
from embermq.errors import NotPermitted, SettingsError
from embermq.format.config_keys import (
    COMBINED,
    KEYS,
    Part,
    known_of_broker,
    no_such_key,
    read_value,
    show_combined,
    show_settings,
)
from embermq.format.unused_keys import UNUSED_OF_BROKER
from embermq.model.version import DataVersion
from embermq.store.settings import CHANGEABLE
from embermq.store.store import Store

log = logging.getLogger(__name__)

BROKER_CHANGEABLE: Final = frozenset(
    {
        *("permission", "auto_create_topics", "auto_create_groups", "region"),
        *("long_polling", "pull_max_messages", "pull_max_bytes"),
        *("client_timeout_ms", "notify_members", "keep_replies"),
        *("sql_filters", "transactions"),
        *("transaction_timeout_ms", "transaction_check_interval_ms", "transaction_check_max"),
    }
)
_LEAST_ONE: Final = (
    *("pull_max_messages", "pull_max_bytes", "client_timeout_ms"),
    *("transaction_timeout_ms", "transaction_check_interval_ms", "transaction_check_max"),
)
_ALL_PERMISSIONS: Final = 7
# What names a path, a program, a class or a secret: such keys are refused as forbidden, whoever may have invented them.
_PROTECTED: Final = re.compile(
    r"path|home|dir$|file$|black|plugin|provider|strategy|filterserver|class|credential|password|secret|user|acl|auth|tls",
    re.IGNORECASE,
)

OnChange = Callable[[BrokerSettings], None]


class LiveSettings:
    """The settings of a broker and its store at this moment. Used in the event loop alone."""

    def __init__(
        self, store: Store, settings: BrokerSettings, *, clock: Clock, fixed: Mapping[str, str] | None = None
    ) -> None:
        self.listeners: list[OnChange] = []  # told of new settings of the broker
        self.version = DataVersion(0, 0, clock.now_ms())
        self._store = store
        self._broker = settings
        self._clock = clock
        self._fixed = dict(fixed or {})  # what else tools are told: addresses and the like

    @property
    def broker(self) -> BrokerSettings:
        return self._broker

    def shown(self) -> dict[str, str]:
        """All settings under RocketMQ's names. Secrets are not among them."""
        store = self._store.settings
        return {
            **self._fixed,
            **show_settings(Part.STORE, store),
            **show_combined(durability=store.durability, light_queues=store.light_queues),
            **show_settings(Part.BROKER, self._broker),
        }

    def change_by_key(self, values: Mapping[str, str], *, by: str) -> None:
        """Change settings that are given under RocketMQ's names; `by` is logged.

        Raises NotPermitted for what may not be changed, SettingsError for what cannot be; then nothing is changed.
        """
        changes: dict[Part, dict[str, object]] = {Part.BROKER: {}, Part.STORE: {}}
        for key, text in values.items():
            _check_key(key)
            changes[KEYS[key].part][KEYS[key].name] = read_value(key, text)
        self.change(changes[Part.BROKER], changes[Part.STORE], by=by)

    def change(self, broker: Mapping[str, object], store: Mapping[str, object], *, by: str) -> None:
        """Change settings of the broker and of its store. Raises SettingsError; then nothing is changed."""
        for name in broker:
            if name not in BROKER_CHANGEABLE:
                raise NotPermitted(f"{name} cannot be changed while the broker runs; set it before the next start")
        changed = dataclasses.replace(self._broker, **broker)  # type: ignore[arg-type]
        _check(changed)
        self._store.change(**store)  # refuses as a whole, so the broker's come after it
        self._broker = changed
        self.version = self.version.next(self._clock.now_ms())
        names = ", ".join(f"{name}={value}" for name, value in sorted({**broker, **store}.items()))
        log.warning("settings changed by=%s settings=%s", by, names)
        for listener in self.listeners:
            listener(changed)


def _check_key(key: str) -> None:
    if key in KEYS:
        part, name, _ = KEYS[key]
        if (part is Part.BROKER and name in BROKER_CHANGEABLE) or (part is Part.STORE and name in CHANGEABLE):
            return
        raise NotPermitted(f"{key} cannot be changed while the broker runs; set it in its file and start it again")
    if key in COMBINED or _PROTECTED.search(key):
        raise NotPermitted(f"{key[:200]} cannot be changed from afar; set it in the broker's file and start it again")
    if key in UNUSED_OF_BROKER:
        raise SettingsError(f"{key} has no meaning here, so nothing was changed")
    raise no_such_key(key, known_of_broker())


def _check(settings: BrokerSettings) -> None:
    for name in _LEAST_ONE:
        if getattr(settings, name) < 1:
            raise SettingsError(f"{name} is {getattr(settings, name)}; at least 1 is wanted")
    if not 0 <= settings.permission <= _ALL_PERMISSIONS:
        raise SettingsError(f"permission is {settings.permission}; 4 read + 2 write is wanted")
