"""RocketMQ's properties files. The golden answers hold every setting of a running broker and name server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embermq.errors import SettingsError
from embermq.format.config_keys import COMBINED, KEYS, Part, show_combined, show_settings
from embermq.format.java_properties import decode_properties, format_properties
from embermq.format.unused_keys import UNUSED_OF_BROKER, UNUSED_OF_NAME_SERVER
from embermq.nameserver.settings import ROCKETMQ_NAMES
from embermq.net.server import TlsMode
from embermq.server.rocketmq_conf import (
    fixed_properties,
    name_server_properties,
    parse_broker_conf,
    parse_name_server_conf,
    read_broker_conf,
    read_name_server_conf,
)
from embermq.server.settings import Settings
from embermq.store.settings import Durability

WIRE = Path(__file__).parents[2] / "golden" / "data" / "wire"


def answer_of(name: str) -> bytes:
    frames = [json.loads(line) for line in (WIRE / name).read_text().splitlines()]
    (answer,) = [frame for frame in frames if frame.get("kind") == "response"]
    return bytes.fromhex(answer["body_hex"])


def golden_broker() -> dict[str, str]:
    return decode_properties(answer_of("mqadmin-getBrokerConfig.jsonl"))


def golden_name_server() -> dict[str, str]:
    return decode_properties(answer_of("mqadmin-getNamesrvConfig.jsonl"))


def a_conf(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "broker.conf"
    path.write_text(text)
    return read_broker_conf(path)


def test_the_lines_of_an_answer_are_written_as_rocketmq_writes_them() -> None:
    for name in ("mqadmin-getBrokerConfig.jsonl", "mqadmin-getNamesrvConfig.jsonl"):
        assert format_properties(decode_properties(answer_of(name))).encode() == answer_of(name)


def test_every_setting_of_a_running_broker_is_known() -> None:
    golden = golden_broker()
    settings = parse_broker_conf(golden, place="golden")
    assert len(golden) == 410
    assert set(settings.unused) == set(golden) & UNUSED_OF_BROKER
    assert settings.broker().cluster == golden["brokerClusterName"]


def test_every_setting_of_a_running_name_server_is_known() -> None:
    golden = golden_name_server()
    settings = parse_name_server_conf(golden, place="golden")
    assert set(settings.unused) == (set(golden) & UNUSED_OF_NAME_SERVER) - set(ROCKETMQ_NAMES)
    assert str(settings.server.name_server_port) == golden["listenPort"]
    assert settings.server.name_server_listen == golden["bindAddress"]
    assert settings.server.key_values_path == golden["kvConfigPath"]


def test_what_we_take_from_a_broker_is_given_back_the_same() -> None:
    golden = golden_broker()
    settings = parse_broker_conf(golden, place="golden")
    store = settings.store()
    shown = {
        **show_settings(Part.BROKER, settings.broker()),
        **show_settings(Part.STORE, store),
        **show_combined(durability=store.durability, light_queues=store.light_queues),
        **show_settings(Part.SERVER, settings.server),
    }
    ours = {key for key in golden if golden[key] and (key in COMBINED or key in KEYS)}
    assert {key: shown[key] for key in ours} == {key: golden[key] for key in ours}
    assert len(ours) > 50
    assert set(shown) <= set(golden)


def test_what_tools_read_besides_is_as_a_broker_answers_it() -> None:
    golden = golden_broker()
    settings = parse_broker_conf(golden, place="golden")
    cpus = int(golden["clientCallbackExecutorThreads"])
    fixed = fixed_properties(settings.server, address="203.0.113.1", cpus=cpus)
    assert fixed.pop("metricsPromExporterHost") == "127.0.0.1"  # RocketMQ leaves it open, and listens everywhere
    assert fixed == {key: golden[key] for key in fixed}


def test_what_tools_read_of_a_name_server_is_as_it_answers() -> None:
    golden = golden_name_server()
    shown = name_server_properties(parse_name_server_conf(golden, place="golden").server)
    assert shown == {key: golden[key] for key in shown}


def test_a_name_is_either_ours_or_not_needed() -> None:
    assert set(KEYS) & UNUSED_OF_BROKER == set()
    assert UNUSED_OF_BROKER.isdisjoint(COMBINED)


def test_a_usual_file(tmp_path: Path) -> None:
    settings = a_conf(
        tmp_path,
        """\
# a broker
brokerClusterName = DefaultCluster
brokerName=broker-b
brokerId=0
deleteWhen=04
fileReservedTime=48
brokerRole=ASYNC_MASTER
flushDiskType=SYNC_FLUSH
namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
brokerIP1=192.0.2.7
listenPort=10911
storePathRootDir=/data/store
storePathCommitLog=/data1/log,\\
    /data2/log
sendMessageThreadPoolNums=64
""",
    )
    store = settings.store()
    assert store.durability is Durability.SYNC
    assert (store.retention_hours, store.delete_when) == (48, "04")
    assert store.log_paths == ("/data1/log", "/data2/log")
    assert settings.server.name_servers == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert (settings.server.advertise, settings.server.port) == ("192.0.2.7", 10911)
    assert settings.server.store_path == "/data/store"
    assert settings.broker().name == "broker-b"
    assert settings.unused == ("sendMessageThreadPoolNums",)


@pytest.mark.parametrize(
    ("text", "durability"),
    [
        ("flushDiskType=SYNC_FLUSH", "sync"),
        ("flushDiskType=ASYNC_FLUSH", "async"),
        ("flushDiskType=ASYNC_FLUSH\ntransientStorePoolEnable=true", "pooled"),
        ("transientStorePoolEnable=true", "pooled"),
        ("flushDiskType=SYNC_FLUSH\ntransientStorePoolEnable=true", "sync"),
        ("brokerName=a", "sync"),
    ],
)
def test_what_holds_when_a_put_returns(tmp_path: Path, text: str, durability: str) -> None:
    assert a_conf(tmp_path, text).store().durability == durability


def test_light_queues_need_both_switches(tmp_path: Path) -> None:
    assert not a_conf(tmp_path, "enableLmq=true").store().light_queues
    assert a_conf(tmp_path, "enableLmq=true\nenableMultiDispatch=true").store().light_queues


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("brokerNam=a", "no setting 'brokerNam'; did you mean brokerName?"),
        ("flushDiskTyp=SYNC_FLUSH", "did you mean flushDiskType?"),
        ("tls.server.mod=enforcing", "did you mean tls.server.mode?"),
        ("fileReservedTime=long", "fileReservedTime is 'long'; a number of hours is wanted"),
        ("longPollingEnable=yes", "true or false is wanted"),
        ("flushDiskType=MAYBE", "SYNC_FLUSH or ASYNC_FLUSH is wanted"),
        ("enableLmq=1", "true or false is wanted"),
        ("listenPort=70000", "a port lies between"),
        ("messageDelayLevel=1x", "delay level '1x'"),
        ("deleteWhen=25", "the hours of a day"),
        ("brokerRole=SLAVE", "EmberMQ keeps one copy"),
        ("storeType=paper", "default or defaultRocksDB is wanted"),
        ("aclEnable=true", "authenticationEnabled"),
        ("authorizationEnabled=true", "switch both on"),
        ("tls.server.need.client.auth=perhaps", "none, optional or require"),
        ("tls.server.certPath=/x.pem", "belong together"),
        ("brokerName=\\u12", "is no properties file"),
    ],
)
def test_a_mistake_is_told_with_its_file(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(SettingsError) as error:
        a_conf(tmp_path, line)
    assert str(error.value).startswith(str(tmp_path / "broker.conf"))
    assert reason in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_broker_conf(tmp_path / "none.conf")


def test_a_mistake_in_a_name_servers_file(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.conf"
    path.write_text("listenPorts=1")
    with pytest.raises(SettingsError, match="did you mean listenPort"):
        read_name_server_conf(path)


def test_an_empty_value_is_the_default(tmp_path: Path) -> None:
    settings = a_conf(tmp_path, "brokerIP1=\nfileReservedTime=\nnamesrvAddr=")
    assert settings.server.advertise is None
    assert settings.store().retention_hours == 72


def test_tls(tmp_path: Path) -> None:
    tls = a_conf(
        tmp_path,
        """\
tls.server.mode=enforcing
tls.server.certPath=/tls/server.pem
tls.server.keyPath=/tls/server.key
tls.server.keyPassword=opens-it
tls.server.trustCertPath=/tls/ca.pem
tls.server.need.client.auth=require
tls.client.authServer=true
""",
    ).tls
    assert (tls.mode, tls.certificate, tls.key) == (TlsMode.ENFORCING, "/tls/server.pem", "/tls/server.key")
    assert (tls.client_authorities, tls.require_client_certificate) == ("/tls/ca.pem", True)
    assert tls.key_password == "opens-it"
    assert "opens-it" not in repr(tls)


def test_access(tmp_path: Path) -> None:
    access = a_conf(
        tmp_path,
        """\
authenticationEnabled=true
authorizationEnabled=true
authenticationWhitelist=10,11
initAuthenticationUser={"username":"root","password":"a-secret"}
innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"b-secret"}
""",
    ).access
    assert (access.authentication, access.authorization, access.open_requests) == (True, True, (10, 11))
    assert (access.first_user, access.first_password) == ("root", "a-secret")
    assert (access.own_user, access.own_password) == ("inner", "b-secret")
    assert "secret" not in repr(access).replace("secretKey", "")


def test_an_error_does_not_show_a_password(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        a_conf(tmp_path, "initAuthenticationUser=root:a-secret")
    assert "initAuthenticationUser" in str(error.value)
    assert "a-secret" not in str(error.value)
