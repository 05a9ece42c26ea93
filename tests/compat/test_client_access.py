"""RocketMQ's clients where requests must be signed: who may, may; who may not is told why, with code 16."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embermq.access.accounts import Accounts
from embermq.model.access import Action, Entry, Pattern, Policy, User
from tests.compat.client_tool import Clients, ClientTool, Refused, text
from tests.compat.cluster import Cluster, ember_process

ADMIN, BILLING, WRONG = ("admin", "first-secret"), ("billing", "other-secret"), ("admin", "not-its-secret")
NO_PERMISSION = 16


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """EmberMQ with an administrator, and a user who may only consume `orders` as `billing`."""
    home = tmp_path_factory.mktemp("guarded")
    config = home / "data" / "config"
    config.mkdir(parents=True)
    accounts = Accounts(config / "access.json")
    accounts.save_user(User(*ADMIN, is_super=True), User(*BILLING))
    accounts.add_policy("billing", _consuming("Topic:orders", "Group:billing"))
    with ember_process(home, "--access") as (cluster, _):
        yield cluster


def _consuming(*resources: str) -> Policy:
    wanted = frozenset({Action.SUB})
    return Policy(custom=tuple(Entry(Pattern.parse(each), wanted, allows=True) for each in resources))


def test_signed_sends_and_consumption(guarded: Cluster, client_tool: ClientTool) -> None:
    with Clients(client_tool, guarded.namesrv, user=ADMIN) as admin:
        admin.admin().call("createTopic", "broker-a", "orders", 4, {})
        bodies = ["one", "zwei \u00fc \u4e2d", "compressed " * 1000]
        admin.producer().send_ok(*({"topic": "orders", "body": body, "tags": "t"} for body in bodies))
        with Clients(client_tool, guarded.namesrv, user=BILLING) as billing:
            delivered = billing.push("billing", {"orders": "t"}).deliveries(3)
            assert {text(each) for each in delivered if "bodyHex" in each} == set(bodies[:2])
            sender = billing.producer("billing-producers")
            assert sender.refusal({"topic": "orders", "body": "not mine to send"})["code"] == NO_PERMISSION


def test_users_and_rules_are_made_by_rocketmqs_admin(guarded: Cluster, client_tool: ClientTool) -> None:
    with Clients(client_tool, guarded.namesrv, user=ADMIN) as clients:
        admin = clients.admin()
        admin.call("createTopic", "broker-a", "letters", 1, {})
        admin.call("createUser", guarded.broker, "carol", "carols-secret", "Normal")
        with Clients(client_tool, guarded.namesrv, user=("carol", "carols-secret")) as carol:
            producer = carol.producer("carols")
            assert producer.refusal({"topic": "letters", "body": "x"})["code"] == NO_PERMISSION
            admin.call("createAcl", guarded.broker, "User:carol", ["Topic:letters"], ["Pub"], [], "Allow")
            producer.send_ok({"topic": "letters", "body": "x"})
        assert admin.call("getUser", guarded.broker, "carol")["userType"] == "Normal"
        admin.call("deleteUser", guarded.broker, "carol")
        assert "carol" not in [user["username"] for user in admin.call("listUser", guarded.broker, "")]


@pytest.mark.parametrize("user", [None, WRONG])
def test_who_does_not_sign_or_signs_wrongly_gets_nowhere(
    guarded: Cluster, client_tool: ClientTool, user: tuple[str, str] | None
) -> None:
    with Clients(client_tool, guarded.namesrv, user=user) as clients:
        clients.producer("strangers").refusal({"topic": "orders", "body": "x"})
        with pytest.raises(Refused):
            clients.admin().call("examineBrokerClusterInfo")
