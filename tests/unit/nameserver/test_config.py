"""The settings of a name server: of ours and of RocketMQ's names, shown and changed from outside."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from embermq.errors import SettingsError
from embermq.format.java_properties import decode_properties
from embermq.model.codes import RequestCode, ResponseCode
from embermq.nameserver.nameserver import SETTINGS_FILE, NameServer
from embermq.nameserver.settings import ROCKETMQ_NAMES, NameServerSettings
from tests.unit.nameserver.asking import ask

SHOW, CHANGE = RequestCode.GET_NAMESERVER_CONFIG, RequestCode.UPDATE_NAMESERVER_CONFIG


def test_every_setting_says_what_it_means() -> None:
    for field in dataclasses.fields(NameServerSettings):
        assert field.metadata["unit"] and field.metadata["consequence"], field.name
    assert set(ROCKETMQ_NAMES.values()) <= {field.name for field in dataclasses.fields(NameServerSettings)}


def test_a_setting_is_changed_at_run_time() -> None:
    name_server = NameServer()
    assert ask(name_server, CHANGE, body=b"enableAllTopicList=false\nwaitSecondsForService=7\n").code == 0
    assert ask(name_server, RequestCode.GET_ALL_TOPICS_FROM_NAMESERVER).code == ResponseCode.NO_PERMISSION
    shown = decode_properties(ask(name_server, SHOW).data)
    assert (shown["enableAllTopicList"], shown["waitSecondsForService"]) == ("false", "7")


def test_settings_of_the_process_are_shown_and_not_changed() -> None:
    name_server = NameServer(fixed={"listenPort": "9876"})
    assert decode_properties(ask(name_server, SHOW).data)["listenPort"] == "9876"
    assert ask(name_server, CHANGE, body=b"listenPort=1").code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    "name",
    ["kvConfigPath", "configStorePath", "rocketmqHome", "configBlackList", "storePathRootDir", "kvconfigpath"],
)
def test_where_files_are_is_not_for_others_to_say(name: str) -> None:
    name_server = NameServer()
    body = f"enableAllTopicList=false\n{name}=/etc/passwd\n".encode()
    assert ask(name_server, CHANGE, body=body).code == ResponseCode.NO_PERMISSION
    assert name_server.settings.current == NameServerSettings()


@pytest.mark.parametrize(
    "body",
    [
        b"enableTopicLists=true",
        b"enableTopicList=perhaps",
        b"waitSecondsForService=0",
        b"waitSecondsForService=99999999999",
        b"waitSecondsForService=-1",
        b"\xff=1",
    ],
)
def test_what_cannot_be_set_is_refused(body: bytes) -> None:
    name_server = NameServer()
    answer = ask(name_server, CHANGE, body=body)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert name_server.settings.current == NameServerSettings()


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(SettingsError, match="scan_interval_ms"):
        NameServerSettings.make({"scan_interval": 3})
    assert NameServerSettings.make({"scan_interval_ms": "3"}).scan_interval_ms == 3


def test_changes_outlive_the_process(tmp_path: Path) -> None:
    ask(NameServer(directory=tmp_path), CHANGE, body=b"orderMessageEnable=true")
    assert (tmp_path / SETTINGS_FILE).read_text() == "orderMessageEnable=true\n"
    assert NameServer(directory=tmp_path).settings.current.order_topics is True
