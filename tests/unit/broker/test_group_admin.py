"""Consumer groups: made, changed, deleted, listed, and what is forbidden to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.format.assignment_body import RequestMode
from embermq.format.group_body import (
    Readable,
    decode_group,
    decode_group_table,
    decode_readable,
    encode_group,
    encode_group_configs,
    encode_group_table,
)
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.group import GroupConfig
from tests.unit.broker.administering import Administering, an_administering
from tests.unit.broker.golden_wire import exchanges

UPDATE = RequestCode.UPDATE_AND_CREATE_GROUP
UPDATE_LIST = RequestCode.UPDATE_AND_CREATE_GROUP_LIST
LIST = RequestCode.GET_ALL_GROUP_CONFIG
DELETE = RequestCode.DELETE_GROUP
FORBID = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Administering]:
    with an_administering(tmp_path) as broker:
        yield broker


def test_what_mqadmin_sends_makes_the_group(broker: Administering) -> None:
    ((request, golden),) = exchanges("mqadmin-updateSubGroup", UPDATE)
    assert broker.answer(request).code == golden.code
    made = broker.groups.find("GID_WireAdmin")
    assert made is not None
    assert encode_group(made) == request.data
    shown = broker.ask(RequestCode.GET_GROUP_CONFIG, {"group": "GID_WireAdmin"})
    assert shown.data == request.data
    assert decode_group(shown.data) == made


@pytest.mark.parametrize("name", ["", " ", "a b", "../x", "x" * 256, "ö"])
def test_a_name_that_cannot_be_is_refused(broker: Administering, tmp_path: Path, name: str) -> None:
    before = broker.groups.table()
    for code, body in (
        (UPDATE, encode_group(GroupConfig(name))),
        (UPDATE_LIST, encode_group_configs([GroupConfig("good"), GroupConfig(name)])),
    ):
        answer = broker.ask(code, body=body)
        assert answer.code == ResponseCode.INVALID_PARAMETER
    assert broker.ask(DELETE, {"groupName": name}).code == ResponseCode.INVALID_PARAMETER
    assert broker.groups.table() is before


@pytest.mark.parametrize("body", [b"", b"[]", b'{"retryMaxTimes":"x","groupName":"g"}', b"{", b"\xff"])
@pytest.mark.parametrize("code", [UPDATE, UPDATE_LIST])
def test_a_body_that_is_no_group(broker: Administering, code: RequestCode, body: bytes) -> None:
    assert broker.ask(code, body=body).code == ResponseCode.INVALID_PARAMETER


def test_attributes_of_a_group_are_those_it_came_with(broker: Administering) -> None:
    broker.groups.save(GroupConfig("older", attributes={"from.elsewhere": "1", "other": "2"}))

    def update(group: str, **attributes: str) -> tuple[int, str | None]:
        answer = broker.ask(UPDATE, body=encode_group(GroupConfig(group, attributes=attributes)))
        return answer.code, answer.remark

    assert update("newer", **{"+a": "b"}) == (ResponseCode.SYSTEM_ERROR, "attribute 'a': groups have no attributes")
    assert broker.groups.find("newer") is None
    assert update("older") == (ResponseCode.SUCCESS, None)
    assert update("older", **{"-other": "", "+from.elsewhere": "3"}) == (ResponseCode.SUCCESS, None)
    assert update("older", **{"+more": "4"})[0] == ResponseCode.SYSTEM_ERROR
    found = broker.groups.find("older")
    assert found is not None and found.attributes == {"from.elsewhere": "3"}


def test_many_groups_at_once(broker: Administering) -> None:
    groups = [GroupConfig(f"g{number}", max_retries=number) for number in range(3)]
    assert broker.ask(UPDATE_LIST, body=encode_group_configs(groups)).code == 0
    assert [broker.groups.find(f"g{number}") for number in range(3)] == groups


def test_what_is_the_same_is_not_written_again(broker: Administering) -> None:
    broker.ask(UPDATE, body=encode_group(GroupConfig("g")))
    version = broker.groups.table().version
    assert broker.ask(UPDATE, body=encode_group(GroupConfig("g"))).code == 0
    assert broker.groups.table().version == version


def test_asking_for_a_group_does_not_make_it(broker: Administering) -> None:
    assert broker.ask(RequestCode.GET_GROUP_CONFIG, {"group": "nobody"}).code == ResponseCode.GROUP_NOT_EXIST
    assert broker.groups.find("nobody") is None


@pytest.mark.parametrize("name", ["mqadmin-getConsumerConfig", "slave-sync"])
def test_all_groups_are_listed_as_rocketmq_lists_them(name: str) -> None:
    for _, golden in exchanges(name, LIST):
        table = decode_group_table(golden.data)
        assert encode_group_table(table.version, table.groups.values(), forbidden=table.forbidden) == golden.data


def test_without_pages_everything_comes_at_once(broker: Administering) -> None:
    broker.groups.set_forbidden("TOOLS_CONSUMER", "orders", False)
    answer = broker.ask(LIST)
    assert decode_group_table(answer.data) == broker.groups.table()
    assert answer.fields == {}


def test_pages_follow_the_alphabet(broker: Administering) -> None:
    broker.groups.save(*(GroupConfig(f"g{number:02}") for number in reversed(range(25))))
    names = sorted(broker.groups.table().groups)
    version = broker.groups.table().version
    told = {"counter": version.counter, "stateVersion": version.state_version, "timestamp": version.timestamp}
    found: list[str] = []
    while len(found) < len(names):
        answer = broker.ask(LIST, {"groupSeq": len(found), "maxGroupNum": 10, "dataVersion": json.dumps(told)})
        assert answer.fields["totalGroupNum"] == str(len(names))
        page = list(decode_group_table(answer.data).groups)
        assert 0 < len(page) <= 10
        found += page
    assert found == names


def test_what_mqadmin_deletes(broker: Administering) -> None:
    ((request, golden),) = exchanges("mqadmin-deleteSubGroup", DELETE)
    broker.groups.save(GroupConfig("GID_WireAdmin"))
    assert broker.answer(request).code == golden.code
    assert broker.groups.find("GID_WireAdmin") is None
    assert broker.answer(request).code == 0  # and once more


@pytest.mark.parametrize("with_offsets", [True, False])
def test_a_deleted_group_keeps_its_offsets_unless_told(broker: Administering, with_offsets: bool) -> None:
    broker.groups.save(GroupConfig("billing"))
    broker.offsets.commit("orders", "billing", 0, 5)
    broker.offsets.commit("orders", "mailing", 0, 6)
    broker.statistics.count_get("orders", 0, "billing", 1, 1)
    broker.modes.set(RequestMode("orders", "billing", "POP"))
    fields = {"groupName": "billing", "cleanOffset": "true" if with_offsets else "false"}
    assert broker.ask(DELETE, fields).code == 0
    assert broker.offsets.find("orders", "billing", 0) == (None if with_offsets else 5)
    assert broker.offsets.find("orders", "mailing", 0) == 6
    assert broker.statistics.minute("GROUP_GET_NUMS", "orders@billing") is None
    assert broker.modes.find("orders", "billing") is None


def test_a_reset_is_not_for_the_next_group_of_that_name(broker: Administering) -> None:
    broker.groups.save(GroupConfig("billing"))
    broker.offsets.reset("orders", "billing", 0, 5)
    broker.ask(DELETE, {"groupName": "billing"})
    assert broker.offsets.take_reset("orders", "billing", 0) is None
    assert broker.offsets.commit("orders", "billing", 0, 7)


def test_reading_is_forbidden_and_allowed_again(broker: Administering) -> None:
    def ask(**fields: object) -> Readable:
        answer = broker.ask(FORBID, {"group": "billing", "topic": "orders", **fields})
        assert answer.code == 0, answer.remark
        return decode_readable(answer.data)

    broker.groups.save(GroupConfig("billing"))
    assert ask() == Readable("billing", "orders", True)
    assert ask(readable="false") == ask() == Readable("billing", "orders", False)
    assert broker.groups.is_forbidden("billing", "orders")
    assert ask(readable="true") == Readable("billing", "orders", True)


def test_what_is_forbidden_is_written_as_java_writes_it(broker: Administering) -> None:
    answer = broker.ask(FORBID, {"group": "billing", "topic": "orders"})
    assert answer.data == b'{"group":"billing","readable":true,"topic":"orders"}'


@pytest.mark.parametrize(("group", "topic"), [("a b", "orders"), ("billing", "a b"), ("", "orders"), ("billing", "")])
def test_names_of_what_is_forbidden_are_checked(broker: Administering, group: str, topic: str) -> None:
    answer = broker.ask(FORBID, {"group": group, "topic": topic, "readable": "false"})
    assert answer.code == ResponseCode.INVALID_PARAMETER
