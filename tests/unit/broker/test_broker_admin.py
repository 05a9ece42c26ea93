"""The broker itself: settings from afar, figures, and cleaning on request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embermq.broker.live_settings import BROKER_CHANGEABLE
from embermq.broker.settings import BrokerSettings
from embermq.errors import NotPermitted
from embermq.format.config_keys import COMBINED, KEYS, Part
from embermq.format.java_properties import decode_properties
from embermq.format.runtime_body import decode_runtime
from embermq.format.unused_keys import UNUSED_OF_BROKER
from embermq.model.codes import RequestCode, ResponseCode
from embermq.store.settings import CHANGEABLE
from tests.builders import some_messages
from tests.unit.broker.administering import Administering, an_administering
from tests.unit.broker.golden_wire import exchanges

CHANGE = RequestCode.UPDATE_BROKER_CONFIG
SHOW = RequestCode.GET_BROKER_CONFIG


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Administering]:
    with an_administering(tmp_path) as broker:
        yield broker


def shown(broker: Administering) -> dict[str, str]:
    return decode_properties(broker.ask(SHOW).data)


def test_what_mqadmin_changes_is_changed(broker: Administering) -> None:
    ((request, golden),) = exchanges("mqadmin-updateBrokerConfig", CHANGE)
    answer = broker.answer(request)
    assert (answer.code, answer.fields) == (golden.code, golden.fields)
    assert request.data.strip() == b"waitTimeMillsInSendQueue=300"
    assert broker.store.settings.busy_wait_ms == 300
    assert shown(broker)["waitTimeMillsInSendQueue"] == "300"


def test_settings_of_broker_and_store_in_one_request(broker: Administering) -> None:
    told: list[BrokerSettings] = []
    broker.live.listeners.append(told.append)
    answer = broker.ask(CHANGE, body=b"fileReservedTime=48\nbrokerPermission=4\ndeleteWhen=04;16\n")
    assert answer.code == 0
    assert (broker.store.settings.retention_hours, broker.store.settings.delete_when) == (48, "04;16")
    assert [settings.permission for settings in told] == [4]
    assert broker.live.broker.permission == 4
    assert {key: shown(broker)[key] for key in ("fileReservedTime", "brokerPermission")} == {
        "fileReservedTime": "48",
        "brokerPermission": "4",
    }


PATHS_AND_PROGRAMS = [
    "rocketmqHome",
    "brokerConfigPath",
    "configBlackList",
    "storePathRootDir",
    "storePathCommitLog",
    "authConfigPath",
    "messageStorePlugIn",
    "authenticationProvider",
    "authenticationEnabled",
    "aclEnable",
    "initAuthenticationUser",
    "innerClientAuthenticationCredentials",
    "filterServerNums",
    "brokerLogDir",
    "kvConfigPath",
    "tls.server.keyPath",
    "listenPort",
    "namesrvAddr",
    "brokerName",
    "flushDiskType",
    "mappedFileSizeCommitLog",
]


@pytest.mark.parametrize("key", PATHS_AND_PROGRAMS)
def test_paths_programs_and_names_are_not_changed_from_afar(broker: Administering, key: str) -> None:
    before = shown(broker)
    answer = broker.ask(CHANGE, body=f"fileReservedTime=1\n{key}=/tmp/x\n".encode())
    assert answer.code == ResponseCode.NO_PERMISSION, answer.remark
    assert key in (answer.remark or "")
    assert shown(broker) == before


def test_an_escaped_key_is_still_the_key(broker: Administering) -> None:
    answer = broker.ask(CHANGE, body=b"rocketmq\\u0048ome=/tmp/x\n")
    assert answer.code == ResponseCode.NO_PERMISSION


def test_only_what_is_on_a_list_can_be_changed(broker: Administering) -> None:
    allowed = {
        key
        for key, (part, name, _) in KEYS.items()
        if (part is Part.BROKER and name in BROKER_CHANGEABLE) or (part is Part.STORE and name in CHANGEABLE)
    }
    for key in {*KEYS, *COMBINED, *UNUSED_OF_BROKER} - allowed:
        answer = broker.ask(CHANGE, body=f"{key}=1".encode())
        assert answer.code in (ResponseCode.NO_PERMISSION, ResponseCode.INVALID_PARAMETER), key
    assert broker.live.version.counter == 0
    assert {field for _, field, _ in KEYS.values()} >= BROKER_CHANGEABLE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fileReservedTim=1", "did you mean fileReservedTime?"),
        ("nonsense=1", "no setting 'nonsense'"),
        ("sendMessageThreadPoolNums=4", "has no meaning here"),
        ("fileReservedTime=soon", "a number of hours is wanted"),
        ("deleteWhen=25", "hours of a day"),
        ("diskMaxUsedSpaceRatio=200", "share of the disk"),
        ("brokerPermission=9", "4 read + 2 write"),
        ("maxTransferCountOnMessageInMemory=0", "at least 1"),
        ("", "it names no setting"),
    ],
)
def test_what_cannot_be_changes_nothing(broker: Administering, text: str, reason: str) -> None:
    before = shown(broker)
    answer = broker.ask(CHANGE, body=f"brokerPermission=4\n{text}".encode() if text else b"")
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert reason in (answer.remark or "")
    assert shown(broker) == before


def test_a_body_that_is_no_text(broker: Administering) -> None:
    assert broker.ask(CHANGE, body=b"a=\xff").code == ResponseCode.INVALID_PARAMETER


def test_a_setting_that_is_fixed_is_fixed_by_our_name_too(broker: Administering) -> None:
    with pytest.raises(NotPermitted, match="cluster cannot be changed"):
        broker.live.change({"cluster": "other"}, {}, by="test")


def test_the_version_counts_changes(broker: Administering) -> None:
    ((request, golden),) = exchanges("mqadmin-getBrokerConfig", SHOW)
    before = json.loads(broker.answer(request).fields["version"])
    assert list(before) == list(json.loads(golden.fields["version"]))
    broker.clock.advance(ms=1000)
    broker.ask(CHANGE, body=b"fileReservedTime=1")
    after = json.loads(broker.ask(SHOW).fields["version"])
    assert (after["counter"], after["timestamp"]) == (1, broker.clock.now_ms())
    assert before["counter"] == 0


def test_settings_are_shown_under_names_that_rocketmq_has(broker: Administering) -> None:
    ((request, golden),) = exchanges("mqadmin-getBrokerConfig", SHOW)
    answer = broker.answer(request)
    lines = answer.data.decode().splitlines()
    assert lines == sorted(lines)
    ours = decode_properties(answer.data)
    assert set(ours) <= set(decode_properties(golden.data))
    assert ours["brokerName"] == "broker-a"
    assert ours["brokerClusterName"] == replace(broker.live.broker).cluster
    assert ours["brokerRole"] == "ASYNC_MASTER"


def test_the_figures_of_the_broker(broker: Administering) -> None:
    ((request, _),) = exchanges("mqadmin-brokerStatus", RequestCode.GET_BROKER_RUNTIME_INFO)
    broker.store.put_many(some_messages(3))
    assert decode_runtime(broker.answer(request).data)["putMessageTimesTotal"] == "3"


def test_nobody_copies_the_broker(broker: Administering) -> None:
    broker.store.put_many(some_messages(3))
    told = json.loads(broker.ask(RequestCode.GET_BROKER_HA_STATUS).data)
    assert (told["master"], told["inSyncSlaveNums"], told["haConnectionInfo"]) == (True, 0, [])
    assert told["masterCommitLogMaxOffset"] == broker.store.state().log_written


def test_expired_log_files_go_when_asked(broker: Administering) -> None:
    broker.store.put_many(some_messages(1000))
    broker.live.change({}, {"delete_pause_ms": 0, "disk_max_ratio": 1.0}, by="test")
    assert broker.ask(RequestCode.DELETE_EXPIRED_LOG).code == 0
    assert broker.store.state().log_begin == 0
    broker.clock.advance(hours=100)
    assert broker.ask(RequestCode.DELETE_EXPIRED_LOG).code == 0
    assert broker.store.state().log_begin > 0


def test_cleaning_keeps_what_is_in_use(broker: Administering) -> None:
    broker.store.put_many(some_messages(10))
    queues = broker.store.queues("orders")
    for recording, code in (
        ("mqadmin-cleanExpiredCQ", RequestCode.CLEAN_EXPIRED_QUEUES),
        ("mqadmin-cleanUnusedTopic", RequestCode.CLEAN_UNUSED_TOPICS),
    ):
        ((request, golden),) = exchanges(recording, code)
        assert broker.answer(request).code == golden.code
    assert broker.store.queues("orders") == queues


def test_queues_of_unknown_topics_go(tmp_path: Path) -> None:
    with an_administering(tmp_path) as broker:
        broker.store.put_many(some_messages(10, topic="orders"))
        broker.store.put_many(some_messages(10, topic="gone"))
    table = tmp_path / "config" / "topics.json"
    topics = json.loads(table.read_text())
    del topics["topicConfigTable"]["gone"]
    table.write_text(json.dumps(topics))
    with an_administering(tmp_path) as broker:
        assert broker.store.queues("gone")
        assert broker.ask(RequestCode.CLEAN_UNUSED_TOPICS).code == 0
        assert broker.store.queues("gone") == []
        assert broker.store.queues("orders")
    assert not (tmp_path / "consumequeue" / "gone" / "0").exists()
