"""The client where a server asks who it is, and where connections are encrypted."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq import Client
from embermq.access.accounts import Accounts
from embermq.errors import ConnectionLost, NotPermitted, SettingsError
from embermq.model.access import Action, Entry, Pattern, Policy, User
from tests.e2e.conftest import Served, serving

ADMIN = {"access_key": "admin", "secret_key": "first-secret"}
BILLING = {"access_key": "billing", "secret_key": "other-secret"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with an administrator, and a user who may only consume `orders` as `billing`."""
    folder = tmp_path_factory.mktemp("guarded")
    accounts = Accounts(make_config(folder) / "access.json")
    accounts.save_user(User("admin", ADMIN["secret_key"], is_super=True), User("billing", BILLING["secret_key"]))
    wanted = frozenset({Action.SUB})
    entries = tuple(Entry(Pattern.parse(text), wanted, allows=True) for text in ("Topic:orders", "Group:billing"))
    accounts.add_policy("billing", Policy(custom=entries))
    with serving(folder, "--access") as served:
        yield served


def make_config(folder: Path) -> Path:
    config = folder / "data" / "config"
    config.mkdir(parents=True)
    return config


def test_who_signs_may_send_and_consume_what_the_rules_allow(guarded: Served) -> None:
    with Client(guarded.namesrv, **ADMIN) as admin, Client(guarded.namesrv, **BILLING) as billing:
        admin.send("orders", b"signed")
        got = []
        for message in billing.consume("orders", group="billing", timeout=2.0):
            with message:
                got.append(message.body)
        assert got == [b"signed"]
        with pytest.raises(NotPermitted, match="billing"):
            billing.send("orders", b"not mine to send")
        with pytest.raises(NotPermitted):
            next(iter(billing.consume("orders", group="another", timeout=2.0)))


@pytest.mark.parametrize("keys", [{}, {"access_key": "admin", "secret_key": "wrong-secret"}])
def test_who_does_not_sign_or_signs_wrongly_is_refused(guarded: Served, keys: dict[str, str]) -> None:
    with Client(guarded.namesrv, **keys) as mq, pytest.raises(NotPermitted):
        mq.send("orders", b"x")


def test_a_key_without_a_secret_is_refused_here() -> None:
    with pytest.raises(SettingsError, match="go together"):
        Client("127.0.0.1:9876", access_key="admin")


def test_connections_may_be_encrypted(guarded: Served) -> None:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with Client(guarded.namesrv, tls=trusting, timeout=10, **ADMIN) as mq:
        receipt = mq.send("secrets", b"whispered")
        assert [message.body for message in mq.read("secrets")] == [b"whispered"]
        assert receipt.offset == 0


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(guarded: Served) -> None:
    with Client(guarded.namesrv, tls=True, **ADMIN) as mq, pytest.raises(ConnectionLost, match="certificate"):
        mq.send("secrets", b"x")
