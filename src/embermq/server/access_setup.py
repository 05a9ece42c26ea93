"""Access control as a process uses it: opened from its settings, with a first user if there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embermq.access.access import Access
from embermq.access.accounts import Accounts, make_secret
from embermq.access.listeners import check_listener
from embermq.errors import SettingsError
from embermq.format.command import Command
from embermq.format.signature import signed
from embermq.model.access import User
from embermq.server.logs import redact
from embermq.server.settings import Settings

log = logging.getLogger(__name__)

ACCOUNTS_FILE: Final = "access.json"
FIRST_USER: Final = "admin"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Door:
    """Who is let in, and as whom this process itself goes elsewhere."""

    access: Access | None
    own: User | None

    def sign(self, request: Command) -> Command:
        """A request of ours, signed if we have a name."""
        if self.own is None:
            return request
        fields = signed(request.fields, request.data, access_key=self.own.name, secret=self.own.secret)
        return Command(request.code, fields, request.body, request.opaque, request.flag)


def open_door(settings: Settings, config_folder: Path, *, say: Say) -> Door:
    """Load users and rules if access control is on; the first time, make an administrator and say its secret once."""
    access = settings.access
    own = _own_user(settings)
    if not access.authentication:
        return Door(None, own)
    if access.open_requests or access.unruled_requests:
        raise SettingsError("no request goes unchecked while access control is on; remove the lists of exceptions")
    path = config_folder / ACCOUNTS_FILE
    accounts = Accounts(path)
    if not accounts.users():
        name = access.first_user or FIRST_USER
        user = User(name, access.first_password or make_secret(), is_super=True)
        accounts.save_user(user)
        if access.first_password is None:
            say(f"administrator made: access key {name}, secret {user.secret} (said once, kept in {path})")
    redact.add(*(user.secret for user in accounts.users()))
    return Door(Access(accounts, cluster=settings.broker().cluster), own or _first_super(accounts))


def check_addresses(addresses: list[str], settings: Settings, *, insecure_public: bool) -> None:
    """Raise SettingsError for a listener that others reach while nobody has to say who they are."""
    for address in addresses:
        check_listener(address, has_credentials=settings.access.authentication, insecure_public=insecure_public)


def _own_user(settings: Settings) -> User | None:
    access = settings.access
    if access.own_user is None:
        return None
    if not access.own_password:
        raise SettingsError("own_user of [access] needs own_password")
    redact.add(access.own_password)
    return User(access.own_user, access.own_password)


def _first_super(accounts: Accounts) -> User | None:
    return next((user for user in accounts.users() if user.is_super and user.is_enabled), None)
