"""Who is believed to be whom, and what a request may not hide from the check."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from embermq.access.access import Access
from embermq.access.accounts import Accounts
from embermq.errors import AccessDenied
from embermq.format.command import Command, decode_command, encode_command, make_answer, make_request
from embermq.format.frame import BINARY_FORM, FrameLimits, split_frames
from embermq.format.signature import ACCESS_KEY, SIGNATURE, sign, signed
from embermq.model.access import Policy, User, parse_sources
from embermq.model.codes import RequestCode, ResponseCode
from embermq.rpc.peer import Peer
from embermq.rpc.router import Router
from tests.conftest import GOLDEN
from tests.unit.access.requests import CLUSTER, SECRET, Caller, Sample, a_request, an_access, an_entry


def signed_without(fields: dict[str, str], *unsigned: str) -> dict[str, str]:
    """Signed as a client does that adds some fields later, or leaves them out."""
    complete = {**fields, ACCESS_KEY: "somebody"}
    seen = {name: value for name, value in complete.items() if name not in unsigned}
    return {**complete, SIGNATURE: sign(seen, b"", SECRET)}


@pytest.mark.parametrize(
    ("unsigned", "fields"),
    [
        ((), {"SecurityToken": "t"}),
        (("SecurityToken",), {"SecurityToken": "t"}),
        (("__ZONE_NAME", "__ZONE_MODE"), {"__ZONE_NAME": "z", "__ZONE_MODE": "true"}),
        (("SecurityToken", "__ZONE_NAME", "__ZONE_MODE"), {"SecurityToken": "t", "__ZONE_NAME": "z"}),
    ],
)
def test_clients_that_sign_differently_are_understood(
    unsigned: tuple[str, ...], fields: dict[str, str], tmp_path: Path
) -> None:
    request = make_request(RequestCode.GET_MAX_OFFSET, signed_without({"topic": "orders", **fields}, *unsigned))
    an_access(tmp_path, "Topic:orders Sub").check(Caller(), request)


@pytest.mark.parametrize("field", ["topic", "queueId"])
def test_no_other_field_may_be_unsigned(field: str, tmp_path: Path) -> None:
    fields = signed_without({"topic": "orders", "queueId": "1"}, field)
    with pytest.raises(AccessDenied, match="another secret"):
        an_access(tmp_path, "Topic:orders Sub").check(Caller(), make_request(RequestCode.GET_MAX_OFFSET, fields))


def test_a_changed_body_is_noticed(tmp_path: Path) -> None:
    fields = signed({"b": "orders"}, b"one", access_key="somebody", secret=SECRET)
    access = an_access(tmp_path, "Topic:orders Pub")
    access.check(Caller(), make_request(RequestCode.SEND_MESSAGE_V2, fields, b"one"))
    with pytest.raises(AccessDenied, match="another secret"):
        access.check(Caller(), make_request(RequestCode.SEND_MESSAGE_V2, fields, b"two"))


@pytest.mark.parametrize("form", ["JSON", "binary"])
def test_a_signature_survives_the_wire(form: str, tmp_path: Path) -> None:
    request = a_request(RequestCode.SEND_MESSAGE_V2, Sample((), {"b": "orders", "i": "käse\x01ü\x02"}, "body"))
    if form == "binary":
        request.form = BINARY_FORM
    frames, _ = split_frames(encode_command(request), FrameLimits())
    an_access(tmp_path, "Topic:orders Pub").check(Caller(), decode_command(frames[0]))


def test_old_clients_do_not_sign_how_they_ask_for_a_key(tmp_path: Path) -> None:
    fields = signed_without({"topic": "orders", "_UNIQUE_KEY_QUERY": "true"}, "_UNIQUE_KEY_QUERY")
    access = an_access(tmp_path, "Topic:orders Sub")
    access.check(Caller(), Command(RequestCode.QUERY_MESSAGE, fields, b"", opaque=1, version=399))
    with pytest.raises(AccessDenied):
        access.check(Caller(), Command(RequestCode.QUERY_MESSAGE, fields, b"", opaque=1, version=400))


def test_unknown_and_disabled_users_hear_what_a_wrong_secret_hears(tmp_path: Path) -> None:
    access = an_access(tmp_path)
    access.accounts.save_user(User("gone", SECRET, is_enabled=False))
    answers = set()
    for name, secret in [("nobody", SECRET), ("gone", SECRET), ("somebody", "wrong-secret")]:
        request = a_request(RequestCode.GET_ROUTE_BY_TOPIC, Sample((), {"topic": "t"}), name=name, secret=secret)
        with pytest.raises(AccessDenied) as refused:
            access.check(Caller(), request)
        answers.add(str(refused.value).replace(name, "NAME"))
    assert len(answers) == 1


@pytest.mark.parametrize("value", ["\ud800", "x" * 60_000])
def test_odd_text_is_refused_and_not_repeated(value: str, tmp_path: Path) -> None:
    fields = {ACCESS_KEY: value, SIGNATURE: value, "topic": value}
    with pytest.raises(AccessDenied) as refused:
        an_access(tmp_path).check(Caller(), make_request(RequestCode.GET_MAX_OFFSET, fields))
    assert len(str(refused.value)) < 1000


def test_a_send_cannot_hide_its_topic_behind_the_other_name_of_the_field(tmp_path: Path) -> None:
    access = an_access(tmp_path, "Topic:orders Pub")
    for fields in ({"topic": "orders", "b": "salaries"}, {"b": "salaries", "topic": "orders"}):
        with pytest.raises(AccessDenied, match="Topic:salaries"):
            access.check(Caller(), a_request(RequestCode.SEND_MESSAGE, Sample((), fields)))
    with pytest.raises(AccessDenied, match="'b' is missing"):
        access.check(Caller(), a_request(RequestCode.SEND_MESSAGE_V2, Sample((), {"topic": "orders"})))


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
def test_the_retry_topic_of_another_group_cannot_be_pulled(code: int, tmp_path: Path) -> None:
    access = an_access(tmp_path, "Topic:* Sub", "Group:billing Sub")
    access.check(Caller(), a_request(code, Sample((), {"topic": "%RETRY%billing", "consumerGroup": "billing"})))
    with pytest.raises(AccessDenied, match="Group:audit"):
        access.check(Caller(), a_request(code, Sample((), {"topic": "%RETRY%audit", "consumerGroup": "billing"})))


def test_sending_to_a_retry_topic_takes_the_right_to_consume_as_its_group(tmp_path: Path) -> None:
    request = a_request(RequestCode.SEND_MESSAGE_V2, Sample((), {"b": "%RETRY%billing"}))
    an_access(tmp_path, "Group:billing Sub").check(Caller(), request)
    with pytest.raises(AccessDenied, match="Group:billing"):
        an_access(tmp_path, "Topic:* All").check(Caller(), request)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"\xff\xfe",
        b"[]",
        b'{"consumerDataSet":7}',
        b'{"consumerDataSet":[7]}',
        b'{"consumerDataSet":[{}]}',
        b'{"consumerDataSet":[{"groupName":""}]}',
        b'{"consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{}]}]}',
        b"[" * 10_000,
    ],
)
def test_a_body_that_cannot_be_read_is_refused(body: bytes, tmp_path: Path) -> None:
    fields = signed({}, body, access_key="somebody", secret=SECRET)
    access = an_access(tmp_path, "Topic:* All", "Group:* All", "Cluster:* All")
    with pytest.raises(AccessDenied, match="body"):
        access.check(Caller(), make_request(RequestCode.HEART_BEAT, fields, body))


def test_every_group_and_topic_of_a_heartbeat_is_checked(tmp_path: Path) -> None:
    consumers = [
        {"groupName": "billing", "subscriptionDataSet": [{"topic": "orders"}, {"topic": "%RETRY%billing"}]},
        {"groupName": "audit", "subscriptionDataSet": [{"topic": "salaries"}]},
    ]
    request = a_request(RequestCode.HEART_BEAT, Sample((), body={"consumerDataSet": consumers}))
    grants = ["Group:billing Sub", "Topic:orders Sub", "Group:audit Sub", "Topic:salaries Sub"]
    an_access(tmp_path, *grants).check(Caller(), request)
    for missing in grants:
        with pytest.raises(AccessDenied, match=missing.split()[0]):
            an_access(tmp_path, *(grant for grant in grants if grant != missing)).check(Caller(), request)


def test_a_heartbeat_of_producers_alone_needs_a_known_user_only(tmp_path: Path) -> None:
    body = {"clientID": "c", "consumerDataSet": [], "producerDataSet": [{"groupName": "pg"}]}
    an_access(tmp_path).check(Caller(), a_request(RequestCode.HEART_BEAT, Sample((), body=body)))
    with pytest.raises(AccessDenied, match="signed"):
        an_access(tmp_path).check(Caller(), make_request(RequestCode.HEART_BEAT, {}, json.dumps(body).encode()))


def test_an_entry_counts_only_from_its_addresses(tmp_path: Path) -> None:
    access = an_access(tmp_path)
    entry = an_entry("Topic:orders Sub")
    near = type(entry)(entry.pattern, entry.actions, allows=True, sources=parse_sources(["10.0.0.0/8", "2001:db8::1"]))
    access.accounts.save_policy("somebody", Policy(custom=(near,)))
    request = a_request(RequestCode.GET_MAX_OFFSET, Sample((), {"topic": "orders"}))
    access.check(Caller("10.1.2.3"), request)
    access.check(Caller("2001:db8::1"), request)
    for address in ("192.0.2.7", "2001:db8::2", ""):
        with pytest.raises(AccessDenied):
            access.check(Caller(address), request)


def test_a_handler_can_check_the_topic_of_the_message_that_it_found(tmp_path: Path) -> None:
    access = an_access(tmp_path, "Topic:orders Sub")
    request = a_request(RequestCode.VIEW_MESSAGE_BY_ID, Sample((), {"topic": "orders", "offset": "0"}))
    access.check(Caller(), request)
    access.check_topic(Caller(), request, "orders")
    with pytest.raises(AccessDenied, match="Topic:salaries"):
        access.check_topic(Caller(), request, "salaries")


def test_viewing_by_position_without_a_topic_is_for_readers_of_the_whole_cluster(tmp_path: Path) -> None:
    request = a_request(RequestCode.VIEW_MESSAGE_BY_ID, Sample((), {"offset": "0"}))
    an_access(tmp_path, f"Cluster:{CLUSTER} Get").check(Caller(), request)
    with pytest.raises(AccessDenied, match="Cluster"):
        an_access(tmp_path, "Topic:* All").check(Caller(), request)


def test_a_router_answers_for_those_who_may_not_and_never_asks_the_handler(tmp_path: Path) -> None:
    handled: list[int] = []

    def answer(peer: Peer, request: Command) -> Command:
        handled.append(request.code)
        return make_answer(request)

    async def receive(access: Access) -> list[Command]:
        router, caller = Router(check=access.check), Caller()
        router.add({RequestCode.GET_MAX_OFFSET: answer})
        topics = ["orders", "salaries", "orders"]
        samples = [Sample((), {"topic": topic}) for topic in topics]
        router.receive(caller, [a_request(RequestCode.GET_MAX_OFFSET, sample) for sample in samples])
        return caller.sent

    sent = asyncio.run(receive(an_access(tmp_path, "Topic:orders Get")))
    assert [each.code for each in sent] == [ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS, ResponseCode.SUCCESS]
    assert len(handled) == 2
    assert "Topic:salaries" in (sent[0].remark or "")


# What real clients send, signed by us: golden/data/wire.


def recorded_requests() -> list[Command]:
    found = []
    for path in sorted((GOLDEN / "wire").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            recorded = json.loads(line)
            if recorded.get("dir") != "c2s" or recorded.get("kind") not in ("request", "oneway"):
                continue
            frames, _ = split_frames(bytes.fromhex(recorded["frame_hex"]), FrameLimits())
            request = decode_command(frames[0])
            fields = signed(request.fields, request.data, access_key="somebody", secret=SECRET)
            found.append(Command(request.code, fields, request.data, opaque=1, version=request.version))
    return found


def test_whatever_rocketmqs_clients_send_can_be_allowed(tmp_path: Path) -> None:
    requests = recorded_requests()
    assert len({request.code for request in requests}) > 50
    access = an_access(tmp_path, "Topic:* All", "Group:* All", "Cluster:* All")
    for request in requests:
        access.check(Caller(), request)


def test_whatever_rocketmqs_clients_send_is_refused_to_a_user_without_rights(tmp_path: Path) -> None:
    access = an_access(tmp_path)
    passed = set()
    for request in recorded_requests():
        try:
            access.check(Caller(), request)
            passed.add(request.code)
        except AccessDenied as refused:
            assert "no permission" in str(refused)
    # Routes; and producers, which say that they are there and that they go.
    assert passed == {RequestCode.GET_ROUTE_BY_TOPIC, RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT}


def test_users_that_are_gone_are_gone(tmp_path: Path) -> None:
    access = an_access(tmp_path, "Topic:orders Sub")
    request = a_request(RequestCode.GET_MAX_OFFSET, Sample((), {"topic": "orders"}))
    access.check(Caller(), request)
    access.accounts.delete_user("somebody")
    with pytest.raises(AccessDenied):
        access.check(Caller(), request)
    with pytest.raises(AccessDenied, match="deleted"):
        access.user_of(request)
    assert len(Accounts(tmp_path / "access.json")) == 0
