"""mqadmin's commands about users and policies, signed as its conf/tools.yml says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.access.accounts import Accounts
from embermq.model.access import User
from tests.compat.client_tool import Clients, ClientTool
from tests.compat.cluster import Cluster, ember_process
from tests.compat.live_group import rows

ADMIN = ("admin", "first-secret")


class Desk:
    """Whoever types mqadmin's commands, beside a broker that lets in only who signs."""

    def __init__(self, tool: ClientTool, cluster: Cluster) -> None:
        self.tool = tool
        self.cluster = cluster

    def run(self, command: str, *options: object) -> dict[str, str]:
        arguments = [command, "-n", self.cluster.namesrv, *map(str, options)]
        printed: dict[str, str] = self.tool.ask("mqadmin", args=arguments, wait_s=60)
        return printed

    def __call__(self, command: str, *options: object) -> str:
        """What a command prints that works."""
        printed = self.run(command, "-b", self.cluster.broker, *options)
        assert "Exception" not in printed["err"], printed
        return printed["out"]

    def table(self, command: str, *options: object) -> list[list[str]]:
        return [row for row in rows(self(command, *options)) if "success." not in row]


@pytest.fixture(scope="module")
def desk(java_classes: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    home, tools = tmp_path_factory.mktemp("signed"), tmp_path_factory.mktemp("tools")
    config = home / "data" / "config"
    config.mkdir(parents=True)
    Accounts(config / "access.json").save_user(User(*ADMIN, is_super=True))
    write_tools_file(tools, *ADMIN)
    tool = ClientTool(java_classes, tools)
    with ember_process(home, "--access") as (cluster, _):
        yield Desk(tool, cluster)
        tool.close()


def write_tools_file(home: Path, access_key: str, secret_key: str) -> None:
    (home / "conf").mkdir(exist_ok=True)
    (home / "conf" / "tools.yml").write_text(f"accessKey: {access_key}\nsecretKey: {secret_key}\n")


def test_a_user_is_made_changed_shown_and_deleted(desk: Desk) -> None:
    user = ("-u", "carol")
    broker = desk.cluster.broker
    assert f"create user to {broker} success." in desk("createUser", *user, "-p", "carols-secret", "-t", "Normal")
    assert desk.table("getUser", *user) == [["carol", "carols-secret", "Normal", "enable"]]
    assert f"update user to {broker} success." in desk("updateUser", *user, "-s", "disable")
    assert desk.table("listUser", "-f", "car") == [["carol", "carols-secret", "Normal", "disable"]]
    assert f"delete user to {broker} success." in desk("deleteUser", *user)
    assert [row[0] for row in desk.table("listUser")] == ["admin"]


def test_a_policy_is_made_changed_shown_and_deleted_and_decides(desk: Desk) -> None:
    broker, subject = desk.cluster.broker, ("-s", "User:dave")
    desk("createUser", "-u", "dave", "-p", "daves-secret", "-t", "Normal")
    desk("updateTopic", "-t", "letters", "-r", 1, "-w", 1)
    with Clients(desk.tool, desk.cluster.namesrv, user=("dave", "daves-secret")) as clients:
        producer, letter = clients.producer("daves"), {"topic": "letters", "body": "x"}
        assert producer.refusal(letter)["code"] == 16
        made = desk("createAcl", *subject, "-r", "Topic:letters", "-a", "Pub,Get", "-d", "Allow")
        assert f"create acl to {broker} success." in made
        producer.send_ok(letter)
        (row,) = desk.table("getAcl", *subject)
        assert row[:3] == ["User:dave", "Custom", "Topic:letters"] and row[-1] == "Allow"
        changed = desk("updateAcl", *subject, "-r", "Topic:letters", "-a", "Pub", "-d", "Deny")
        assert f"update acl to {broker} success." in changed
        assert producer.refusal(letter)["code"] == 16
        (row,) = desk.table("listAcl", *subject, "-r", "Topic:letters")
        assert row[-1] == "Deny"
        assert f"delete acl to {broker} success." in desk("deleteAcl", *subject, "-r", "Topic:letters")
        assert [row for row in desk.table("listAcl") if row[0] == "User:dave"] == []


def test_who_signs_wrongly_is_told_so(desk: Desk) -> None:
    write_tools_file(desk.tool.home, "admin", "not-its-secret")
    try:
        printed = desk.run("clusterList")
    finally:
        write_tools_file(desk.tool.home, *ADMIN)
    assert "CODE: 16" in printed["err"] + printed["out"], printed
