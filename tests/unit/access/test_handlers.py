"""Users and policies over the wire, through a router with the check that a server has."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from embermq.access.access import Access
from embermq.access.accounts import Accounts
from embermq.access.handlers import AccessHandlers
from embermq.format.command import Command
from embermq.model.access import Policy, User
from embermq.model.codes import RequestCode, ResponseCode
from embermq.rpc.router import Router
from tests.unit.access.requests import CLUSTER, SECRET, Caller, Sample, a_request, an_entry

LOOKS, CHANGES = f"Cluster:{CLUSTER} Get", f"Cluster:{CLUSTER} Update|Get"


@pytest.fixture
def access(tmp_path: Path) -> Access:
    accounts = Accounts(tmp_path / "access.json")
    accounts.save_user(*(User(name, SECRET, is_super=name == "boss") for name in ("boss", "looks", "changes")))
    accounts.add_policy("looks", Policy(custom=(an_entry(LOOKS),)))
    accounts.add_policy("changes", Policy(custom=(an_entry(CHANGES),)))
    return Access(accounts, cluster=CLUSTER)


def ask(access: Access, code: int, name: str, body: object = None, **fields: str) -> Command:
    async def exchange() -> Command:
        router, caller = Router(check=access.check), Caller()
        router.add(AccessHandlers(access).routes())
        router.receive(caller, [a_request(code, Sample((), fields, body), name=name)])
        return caller.sent[0]

    return asyncio.run(exchange())


def read(access: Access, code: int, name: str, **fields: str) -> Any:
    answer = ask(access, code, name, **fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return json.loads(answer.data)


def test_a_user_is_made_changed_and_deleted(access: Access) -> None:
    assert ask(access, 3001, "boss", {"password": "12345678", "userType": "Normal"}, username="new").code == 0
    assert read(access, 3004, "boss", username="new") == {
        "password": "12345678",
        "userStatus": "enable",
        "userType": "Normal",
        "username": "new",
    }
    assert ask(access, 3001, "boss", {"password": "12345678"}, username="new").code == ResponseCode.INVALID_PARAMETER
    assert ask(access, 3002, "boss", {"userStatus": "disable"}, username="new").code == 0
    assert access.accounts.find("new") == User("new", "12345678", is_enabled=False)
    assert ask(access, 3003, "boss", username="new").code == 0
    assert ask(access, 3004, "boss", username="new").code == ResponseCode.INVALID_PARAMETER


def test_secrets_are_for_super_users(access: Access) -> None:
    assert all(user["password"] == SECRET for user in read(access, 3005, "boss"))
    seen = [ask(access, 3005, "looks"), ask(access, 3004, "looks", username="boss")]
    assert all(answer.code == 0 and SECRET.encode() not in answer.data for answer in seen)
    assert [user["username"] for user in read(access, 3005, "looks", filter="oo")] == ["looks"]


@pytest.mark.parametrize("code", [3001, 3002, 3003, 3006, 3007, 3008])
@pytest.mark.parametrize("name", ["looks", "changes"])
def test_only_super_users_change_anything(access: Access, code: int, name: str) -> None:
    users, policies = access.accounts.users(), access.accounts.policies()
    entry = {"actions": ["All"], "decision": "Allow", "resource": "*"}
    body = {"password": "87654321", "userType": "Super", "policies": [{"entries": [entry]}]}
    answer = ask(access, code, name, body, username=name, subject=f"User:{name}")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert (access.accounts.users(), access.accounts.policies()) == (users, policies)


def test_a_policy_is_made_works_and_is_deleted(access: Access) -> None:
    pull = a_request(RequestCode.GET_MAX_OFFSET, Sample((), {"topic": "orders"}), name="looks")
    entry = {"actions": ["Sub"], "decision": "Allow", "resource": "Topic:orders", "sourceIps": ["192.0.2.0/24"]}
    body = {"policies": [{"entries": [entry], "policyType": "Custom"}], "subject": "User:looks"}
    assert ask(access, 3006, "boss", body, subject="User:looks").code == 0
    access.check(Caller("192.0.2.7"), pull)
    (shown,) = read(access, 3009, "looks", subject="User:looks")["policies"]
    assert shown["entries"][1] == entry
    assert [each["subject"] for each in read(access, 3010, "boss", resourceFilter="orders")] == ["User:looks"]
    assert ask(access, 3008, "boss", subject="User:looks", resource="Topic:orders").code == 0
    assert read(access, 3010, "boss", resourceFilter="orders") == []


@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [
        (3001, {"username": "x"}, "no object"),
        (3001, {"username": "x"}, {"password": "1"}),
        (3001, {}, {"password": "12345678"}),
        (3002, {"username": "nobody"}, {}),
        (3003, {"username": "boss"}, None),
        (3006, {"subject": "Group:x"}, {}),
        (3006, {"subject": "User:nobody"}, {"policies": []}),
        (3006, {"subject": "User:looks"}, {"policies": [{"entries": [{"resource": "*", "decision": "Allow"}]}]}),
        (3008, {"subject": "User:looks", "resource": "x"}, None),
        (3009, {"subject": "User:nobody"}, None),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(
    access: Access, code: int, fields: dict[str, str], body: object
) -> None:
    users, policies = access.accounts.users(), access.accounts.policies()
    assert ask(access, code, "boss", body, **fields).code == ResponseCode.INVALID_PARAMETER
    assert (access.accounts.users(), access.accounts.policies()) == (users, policies)
