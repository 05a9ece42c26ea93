"""RocketMQ's properties files: broker.conf, the name server's, and tls.properties.

Every name of RocketMQ 5.3.3 is known. Those that mean something here become settings of ours; those
that do not are collected for one warning; some ask for what EmberMQ does not have (replicas, another
kind of store) and are refused; any other name is a mistake, and the error tells the nearest one.
What a file does not say stays EmberMQ's own default.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from embermq.errors import SettingsError
from embermq.format.config_keys import (
    BOOLEAN,
    COMBINED,
    KEYS,
    Part,
    known_of_broker,
    no_such_key,
    read_combined,
    read_value,
    show_combined,
    show_settings,
)
from embermq.format.unused_keys import UNUSED_OF_BROKER, UNUSED_OF_NAME_SERVER
from embermq.model.topic import TRACE_TOPIC
from embermq.nameserver.settings import ROCKETMQ_NAMES, NameServerSettings
from embermq.server.settings import AccessSettings, ServerSettings, Settings, TlsSettings

_NO_REPLICAS: Final = "EmberMQ keeps one copy of a store; take this line out"

# Values that EmberMQ can honour; any other one asks for what it does not have.
_ONLY: Final = {
    "brokerRole": (("ASYNC_MASTER", "SYNC_MASTER"), _NO_REPLICAS),
    "enableDLegerCommitLog": (("false",), _NO_REPLICAS),
    "enableControllerMode": (("false",), _NO_REPLICAS),
    "aclEnable": (("false",), "it is ACL 1.0; use authenticationEnabled and authorizationEnabled instead"),
}
_FIRST_USER: Final = "initAuthenticationUser"
_OWN_USER: Final = "innerClientAuthenticationCredentials"
_CREDENTIALS: Final = {_FIRST_USER: ("username", "password"), _OWN_USER: ("accessKey", "secretKey")}

_TLS: Final = {
    "tls.server.mode": "mode",
    "tls.server.certPath": "certificate",
    "tls.server.keyPath": "key",
    "tls.server.keyPassword": "key_password",
    "tls.server.trustCertPath": "client_authorities",
}
_TLS_SWITCHES: Final = {
    "tls.server.authClient": "require_client_certificate",
    "tls.test.mode.enable": "test_certificate",
}
_TLS_NEEDS_CLIENT: Final = "tls.server.need.client.auth"
_TLS_UNUSED: Final = frozenset(
    {
        *("tls.enable", "tls.config.file", "tls.client.keyPath", "tls.client.keyPassword", "tls.client.certPath"),
        *("tls.client.authServer", "tls.client.trustCertPath"),
    }
)
_TLS_KNOWN: Final = frozenset({*_TLS, *_TLS_SWITCHES, _TLS_NEEDS_CLIENT, *_TLS_UNUSED})

_NAME_SERVER_KEYS: Final = {
    "bindAddress": "name_server_listen",
    "listenPort": "name_server_port",
    "kvConfigPath": "key_values_path",
    "serverChannelMaxIdleTimeSeconds": "idle_timeout_s",
}


def read_broker_conf(path: Path) -> Settings:
    """The settings of a broker.conf, which may hold lines of tls.properties, too. Raises SettingsError."""
    return parse_broker_conf(_read_properties(path), place=str(path))


def read_name_server_conf(path: Path) -> Settings:
    """The settings of a name server's file. Raises SettingsError."""
    return parse_name_server_conf(_read_properties(path), place=str(path))


def parse_broker_conf(values: Mapping[str, str], *, place: str) -> Settings:
    """The same from values by name; `place` is told in errors."""
    try:
        return _broker_settings(values)
    except SettingsError as error:
        raise SettingsError(f"{place}: {error}") from error


def parse_name_server_conf(values: Mapping[str, str], *, place: str) -> Settings:
    try:
        return _name_server_settings(values)
    except SettingsError as error:
        raise SettingsError(f"{place}: {error}") from error


def fixed_properties(server: ServerSettings, *, address: str, cpus: int) -> dict[str, str]:
    """What the answer to GET_BROKER_CONFIG holds besides the settings of broker and store."""
    return {
        **show_settings(Part.SERVER, server),
        "brokerIP1": server.advertise or address,
        "brokerRole": "ASYNC_MASTER",
        "msgTraceTopicName": TRACE_TOPIC,
        "traceOn": "true",
        "slaveReadEnable": "false",
        "useTLS": "false",
        "clientCallbackExecutorThreads": str(cpus),  # what tools show as the number of processors
    }


def broker_properties(settings: Settings) -> dict[str, str]:
    """All settings of a broker that is not started, under RocketMQ's names. Secrets are not among them."""
    store = settings.store()
    return {
        **fixed_properties(settings.server, address=settings.server.listen, cpus=os.cpu_count() or 1),
        **show_settings(Part.STORE, store),
        **show_combined(durability=store.durability, light_queues=store.light_queues),
        **show_settings(Part.BROKER, settings.broker()),
    }


def name_server_properties(server: ServerSettings) -> dict[str, str]:
    """What the answer to GET_NAMESERVER_CONFIG holds."""
    key_values = {} if server.key_values_path is None else {"kvConfigPath": server.key_values_path}
    return {
        **key_values,
        "bindAddress": server.name_server_listen,
        "listenPort": str(server.name_server_port),
        "serverChannelMaxIdleTimeSeconds": str(server.idle_timeout_s),
        "returnOrderTopicConfigToBroker": "true",
        "orderMessageEnable": "false",
        "clusterTest": "false",
        "enableAllTopicList": "true",
        "enableTopicList": "true",
        "supportActingMaster": "false",
        "deleteTopicWithBrokerRegistration": "false",
        "scanNotActiveBrokerInterval": "5000",
    }


def _read_properties(path: Path) -> dict[str, str]:
    import javaproperties  # late: only who has such a file needs it

    try:
        text = path.read_text(encoding="utf-8")
        return dict(javaproperties.loads(text))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, javaproperties.InvalidUEscapeError) as error:
        raise SettingsError(f"{path} is no properties file: {error}") from error


def _broker_settings(values: Mapping[str, str]) -> Settings:
    parts: dict[Part, dict[str, object]] = {part: {} for part in Part}
    unused = []
    for key, text in values.items():
        if key in KEYS:
            if text.strip():  # an empty line means the default, as in RocketMQ
                parts[KEYS[key].part][KEYS[key].name] = read_value(key, text)
        elif key in _ONLY:
            _check_only(key, text.strip())
        elif key in UNUSED_OF_BROKER or key in _TLS_UNUSED:
            unused.append(key)
        elif key not in COMBINED and key not in _CREDENTIALS and key not in _TLS_KNOWN:
            raise no_such_key(key, [*known_of_broker(), *_ONLY, *_CREDENTIALS, *_TLS_KNOWN])
    parts[Part.STORE].update(read_combined(values))
    parts[Part.ACCESS].update(_credentials(values))
    settings = Settings(
        server=ServerSettings(**parts[Part.SERVER]),  # type: ignore[arg-type]
        broker_values=parts[Part.BROKER],
        store_values=parts[Part.STORE],
        tls=_tls(values),
        access=AccessSettings(**parts[Part.ACCESS]),  # type: ignore[arg-type]
        unused=tuple(sorted(unused)),
    )
    settings.broker()  # now, while it can still be said which file is wrong
    settings.store()
    return settings


def _name_server_settings(values: Mapping[str, str]) -> Settings:
    found: dict[str, object] = {}
    own: dict[str, object] = {}
    unused = []
    for key, text in values.items():
        if key in _NAME_SERVER_KEYS:
            if text.strip():
                found[_NAME_SERVER_KEYS[key]] = read_value(key, text) if key in KEYS else text.strip()
        elif key in ROCKETMQ_NAMES:
            own[ROCKETMQ_NAMES[key]] = text.strip()
        elif key in UNUSED_OF_NAME_SERVER or key in _TLS_UNUSED:
            unused.append(key)
        elif key not in _TLS_KNOWN:
            raise no_such_key(key, [*_NAME_SERVER_KEYS, *ROCKETMQ_NAMES, *UNUSED_OF_NAME_SERVER, *_TLS_KNOWN])
    NameServerSettings.make(own)  # now, while it can still be said which file is wrong
    server = ServerSettings(**found)  # type: ignore[arg-type]
    return Settings(server=server, name_server_values=own, tls=_tls(values), unused=tuple(sorted(unused)))


def _check_only(key: str, text: str) -> None:
    allowed, reason = _ONLY[key]
    if text and text not in allowed:
        raise SettingsError(f"{key} is {text[:200]!r}; {reason}")


def _tls(values: Mapping[str, str]) -> TlsSettings:
    found: dict[str, object] = {_TLS[key]: text.strip() for key, text in values.items() if key in _TLS and text.strip()}
    for key, name in _TLS_SWITCHES.items():
        if values.get(key, "").strip():
            found[name] = _read_switch(key, values[key])
    # Either of two names asks clients for their certificates.
    needs = values.get(_TLS_NEEDS_CLIENT, "none").strip()
    if needs not in ("none", "optional", "require"):
        raise SettingsError(f"{_TLS_NEEDS_CLIENT} is {needs[:200]!r}; none, optional or require is wanted")
    if needs == "require":
        found["require_client_certificate"] = True
    return TlsSettings(**found)  # type: ignore[arg-type]


def _read_switch(key: str, text: str) -> object:
    try:
        return BOOLEAN.read(text.strip())
    except ValueError as error:
        raise SettingsError(f"{key} is {text[:200]!r}; {BOOLEAN.wanted} is wanted") from error


def _credentials(values: Mapping[str, str]) -> dict[str, object]:
    """Users with their passwords, which stand in the file as JSON. No error tells what was found: it may be secret."""
    found: dict[str, object] = {}
    for key, ours in ((_FIRST_USER, "first"), (_OWN_USER, "own")):
        text = values.get(key, "").strip()
        if not text:
            continue
        name, password = _CREDENTIALS[key]
        try:
            members = json.loads(text)
            found[f"{ours}_user"], found[f"{ours}_password"] = str(members[name]), str(members[password])
        except (ValueError, KeyError, TypeError):
            raise SettingsError(f'{key} is no JSON of the form {{"{name}":"…","{password}":"…"}}') from None
    return found
