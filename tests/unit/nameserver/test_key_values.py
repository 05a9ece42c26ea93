"""The key-value table: over the wire, and on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.errors import CorruptRecord, DiskFailed, IllegalField
from embermq.format.cluster_body import decode_values
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.topic import TopicConfig
from embermq.nameserver.key_values import KEY_VALUES_FILE, MAX_VALUE_SIZE, ORDER_TOPICS, KeyValues
from embermq.nameserver.nameserver import NameServer
from embermq.nameserver.settings import NameServerSettings
from tests.unit.nameserver.asking import ask, register, topics

PLACE = {"namespace": "n", "key": "k"}


def test_a_value_is_put_read_listed_and_deleted() -> None:
    name_server = NameServer()
    assert ask(name_server, RequestCode.GET_KV_CONFIG, PLACE).code == ResponseCode.QUERY_NOT_FOUND
    assert ask(name_server, RequestCode.GET_KV_LIST, PLACE).code == ResponseCode.QUERY_NOT_FOUND
    assert ask(name_server, RequestCode.PUT_KV_CONFIG, {**PLACE, "value": "välue"}).code == 0
    assert ask(name_server, RequestCode.GET_KV_CONFIG, PLACE).fields == {"value": "välue"}
    assert decode_values(ask(name_server, RequestCode.GET_KV_LIST, PLACE).data) == {"k": "välue"}
    for _ in range(2):
        assert ask(name_server, RequestCode.DELETE_KV_CONFIG, PLACE).code == 0
    assert ask(name_server, RequestCode.GET_KV_CONFIG, PLACE).code == ResponseCode.QUERY_NOT_FOUND
    assert ask(name_server, RequestCode.PUT_KV_CONFIG, PLACE).code == ResponseCode.INVALID_PARAMETER


def test_brokers_are_told_which_topics_are_ordered() -> None:
    registration = topics(TopicConfig("orders"))
    for is_on, told in [(True, {"orders": "broker-a:4"}), (False, None)]:
        name_server = NameServer(NameServerSettings(order_topics_to_brokers=is_on))
        assert register(name_server, registration).data == b""
        name_server.key_values.put(ORDER_TOPICS, "orders", "broker-a:4")
        body = register(name_server, registration).data
        assert (decode_values(body) if body else None) == told


def test_values_outlive_the_process_in_rocketmqs_form(tmp_path: Path) -> None:
    path = tmp_path / "config" / KEY_VALUES_FILE
    KeyValues(path).put(ORDER_TOPICS, "orders", "broker-a:4")
    assert path.read_bytes() == b'{"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4"}}}'
    again = KeyValues(path)
    assert again.find(ORDER_TOPICS, "orders") == "broker-a:4"
    again.delete(ORDER_TOPICS, "orders")
    assert KeyValues(path).find_all(ORDER_TOPICS) == {}


def test_a_damaged_file_is_replaced_by_its_backup_or_refused(tmp_path: Path) -> None:
    path = tmp_path / KEY_VALUES_FILE
    table = KeyValues(path)
    table.put("n", "a", "1")
    table.put("n", "b", "2")
    path.write_bytes(b"{")
    assert KeyValues(path).find_all("n") == {"a": "1"}
    path.with_name(path.name + ".bak").unlink()
    with pytest.raises(CorruptRecord):
        KeyValues(path)


def test_a_disk_that_fails_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "config" / KEY_VALUES_FILE
    table = KeyValues(path)
    table.put("n", "k", "1")
    path.with_name(path.name + ".tmp").mkdir()  # where the new content would be written first
    with pytest.raises(DiskFailed):
        table.put("n", "k", "2")
    with pytest.raises(DiskFailed):
        table.delete("n", "k")
    assert table.find("n", "k") == "1"


def test_the_table_has_limits() -> None:
    table = KeyValues(limit=2)
    table.put("n", "a", "1")
    table.put("m", "b", "1")
    with pytest.raises(IllegalField, match="limit 2"):
        table.put("n", "c", "1")
    table.put("n", "a", "2")
    table.delete("m", "b")
    table.put("n", "c", "1")
    with pytest.raises(IllegalField, match="value"):
        table.put("n", "a", "x" * (MAX_VALUE_SIZE + 1))
    assert table.find_all("n") == {"a": "2", "c": "1"}
