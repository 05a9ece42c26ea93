"""What a process is told besides its broker's and its store's settings: addresses, TLS, access.

`Settings` is all of it together, as a settings file gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from embermq.broker.settings import BrokerSettings
from embermq.errors import SettingsError
from embermq.model.setting import setting
from embermq.net.server import TlsMode
from embermq.store.settings import LARGEST_PORT, StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Addresses and directories of one process."""

    listen: str = setting("127.0.0.1", "address", "where the broker takes connections; 0.0.0.0 for all")
    port: int = setting(10911, "port", "the broker's port")
    name_server_listen: str = setting("127.0.0.1", "address", "where the name server takes connections")
    name_server_port: int = setting(9876, "port", "the name server's port")
    name_servers: tuple[str, ...] = setting(
        (), "list of address:port", "the name servers to register with; empty: one inside this process"
    )
    advertise: str | None = setting(None, "address", "the broker's address as clients reach it; empty: `listen`")
    store_path: str = setting("ember-data", "directory", "where messages and tables are kept")
    key_values_path: str | None = setting(
        None, "file", "the name server's key-value table; empty: namesrv/kvConfig.json in `store_path`"
    )
    http_listen: str = setting("127.0.0.1", "address", "where /metrics and /healthz are served")
    http_port: int = setting(5557, "port", "of /metrics and /healthz; any other if it is taken, -1 for none")
    max_connections: int = setting(10_000, "count", "connections that a broker keeps open; more are refused")
    idle_timeout_s: int = setting(120, "seconds", "a connection that is silent for so long is closed")

    def __post_init__(self) -> None:
        for name in ("port", "name_server_port"):
            value = getattr(self, name)
            if not 0 <= value <= LARGEST_PORT:
                raise SettingsError(f"{name} is {value}; a port lies between 0 and {LARGEST_PORT}")
        if self.idle_timeout_s < 1:
            raise SettingsError(f"idle_timeout_s is {self.idle_timeout_s}; at least 1 is wanted")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How connections are encrypted."""

    mode: TlsMode = setting(
        TlsMode.PERMISSIVE, "disabled, permissive or enforcing", "plain connections only, both, or TLS only"
    )
    certificate: str | None = setting(None, "file", "the server's certificate chain, PEM")
    key: str | None = setting(None, "file", "the private key of the certificate, PEM")
    key_password: str | None = setting(None, "text", "opens the key file", is_secret=True)
    client_authorities: str | None = setting(None, "file", "who may sign the certificates of clients, PEM")
    require_client_certificate: bool = setting(False, "yes or no", "refuse clients without a certificate")
    test_certificate: bool = setting(True, "yes or no", "without a certificate, make one that nobody trusts")

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "mode", TlsMode(self.mode))
        except ValueError as error:
            raise SettingsError(f"mode of TLS is {self.mode!r}; disabled, permissive or enforcing is wanted") from error
        if (self.certificate is None) != (self.key is None):
            raise SettingsError("certificate and key of TLS belong together; one of them is missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Who is asked for credentials, and what they may do."""

    authentication: bool = setting(False, "yes or no", "every request must be signed by a known user")
    authorization: bool = setting(False, "yes or no", "a user may do only what the rules allow; needs authentication")
    open_requests: tuple[int, ...] = setting((), "list of request codes", "requests that nobody has to sign")
    unruled_requests: tuple[int, ...] = setting((), "list of request codes", "requests that no rule is asked for")
    first_user: str | None = setting(None, "name", "an administrator who is made at start if there is no user")
    first_password: str | None = setting(None, "text", "the password of `first_user`", is_secret=True)
    own_user: str | None = setting(None, "name", "as whom this process signs its requests to others")
    own_password: str | None = setting(None, "text", "the password of `own_user`", is_secret=True)

    def __post_init__(self) -> None:
        if self.authorization and not self.authentication:
            raise SettingsError("authorization without authentication believes everybody; switch both on")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one process.

    Broker and store settings stay as values by name, because options of the command line are laid
    over those of a file; `broker()` and `store()` check them.
    """

    server: ServerSettings = ServerSettings()
    broker_values: Mapping[str, object] = field(default_factory=dict)
    store_values: Mapping[str, object] = field(default_factory=dict)
    tls: TlsSettings = TlsSettings()
    access: AccessSettings = AccessSettings()
    name_server_values: Mapping[str, object] = field(default_factory=dict)
    unused: tuple[str, ...] = ()  # names that RocketMQ has and EmberMQ has no need of, for one warning

    def broker(self) -> BrokerSettings:
        """The broker's settings. Raises SettingsError."""
        return BrokerSettings.make(self.broker_values)

    def store(self) -> StoreSettings:
        """The store's settings. Raises SettingsError."""
        return StoreSettings.make(self.store_values)
