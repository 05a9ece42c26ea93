"""RocketMQ's ACL 1.0 file: the same users may do the same things."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embermq.access.access import Access
from embermq.access.accounts import Accounts
from embermq.access.plain_acl import convert_plain_acl
from embermq.errors import AccessDenied, SettingsError
from embermq.model.codes import RequestCode as Code
from tests.unit.access.requests import CLUSTER, Caller, Sample, a_request

# What YAML makes of the file that RocketMQ 4.9 brings along, shortened; 12345678 without quotes is a number there.
DOCUMENT: dict[str, Any] = {
    "globalWhiteRemoteAddresses": ["10.10.103.*", "192.168.0.*"],
    "accounts": [
        {
            "accessKey": "RocketMQ",
            "secretKey": 12345678,
            "whiteRemoteAddress": None,
            "admin": False,
            "defaultTopicPerm": "SUB",
            "defaultGroupPerm": "SUB",
            "topicPerms": ["topicA=DENY", "topicB=PUB|SUB", "topicC=PUB"],
            "groupPerms": ["groupA=DENY", "groupB=PUB|SUB"],
        },
        {"accessKey": "rocketmq2", "secretKey": "12345678", "whiteRemoteAddress": "192.168.1.*", "admin": True},
        {"accessKey": "bare", "secretKey": "12345678"},
    ],
}


def allowed(access: Access, name: str, code: int, **fields: str) -> bool:
    try:
        access.check(Caller(), a_request(code, Sample((), fields), name=name, secret="12345678"))
    except AccessDenied:
        return False
    return True


@pytest.fixture
def access(tmp_path: Path) -> Access:
    imported = convert_plain_acl(DOCUMENT, where="plain_acl.yml")
    accounts = Accounts(tmp_path / "access.json")
    accounts.add(imported.users, imported.policies)
    return Access(accounts, cluster=CLUSTER)


@pytest.mark.parametrize(
    ("topic", "may_send", "may_read"),
    [("topicA", False, False), ("topicB", True, True), ("topicC", True, False), ("other", False, True)],
)
def test_a_topic_has_the_permission_of_its_line_else_the_default(
    access: Access, topic: str, may_send: bool, may_read: bool
) -> None:
    assert allowed(access, "RocketMQ", Code.SEND_MESSAGE, topic=topic) is may_send
    assert allowed(access, "RocketMQ", Code.PULL_MESSAGE, topic=topic, consumerGroup="groupB") is may_read
    assert allowed(access, "RocketMQ", Code.QUERY_MESSAGE, topic=topic) is may_read


def test_groups_have_permissions_of_their_own(access: Access) -> None:
    assert allowed(access, "RocketMQ", Code.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="groupB")
    assert allowed(access, "RocketMQ", Code.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="groupC")
    assert not allowed(access, "RocketMQ", Code.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="groupA")
    assert not allowed(access, "RocketMQ", Code.SEND_MESSAGE, topic="%RETRY%groupA")


def test_administration_is_for_administrators(access: Access) -> None:
    for code in (Code.UPDATE_BROKER_CONFIG, Code.UPDATE_AND_CREATE_TOPIC, Code.DELETE_TOPIC_IN_BROKER):
        assert allowed(access, "rocketmq2", code, topic="topicB")
        assert not allowed(access, "RocketMQ", code, topic="topicB")


def test_an_account_without_lines_may_do_nothing(access: Access) -> None:
    assert not allowed(access, "bare", Code.SEND_MESSAGE, topic="topicB")
    assert allowed(access, "bare", Code.GET_ROUTE_BY_TOPIC, topic="topicB")


def test_addresses_that_need_no_signature_are_left_out_and_that_is_said() -> None:
    notes = convert_plain_acl(DOCUMENT, where="plain_acl.yml").notes
    assert len(notes) == 2
    assert "globalWhiteRemoteAddresses" in notes[0]
    assert "'rocketmq2'" in notes[1]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "object"),
        ({}, "no accounts"),
        ({"accounts": 7}, "array"),
        ({"accounts": [{"accessKey": "a"}]}, "secretKey"),
        ({"accounts": [{"accessKey": "a", "secretKey": "b", "topicPerms": ["t"]}]}, "'a'.*'t'"),
        ({"accounts": [{"accessKey": "a", "secretKey": "b", "topicPerms": ["t=ALL"]}]}, "ALL"),
        ({"accounts": [{"accessKey": "a", "secretKey": "b", "defaultGroupPerm": "X"}]}, "X"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(document: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        convert_plain_acl(document, where="plain_acl.yml")
