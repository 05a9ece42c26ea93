"""What a server says to requests that make no sense: a code of RocketMQ, the cause, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.format.command import Command
from embermq.format.frame import JSON_FORM, encode_frame
from embermq.format.signature import signed
from embermq.model.codes import RequestCode, ResponseCode
from tests.e2e.conftest import Served, serving
from tests.e2e.line import Line
from tests.unit.broker.brokers import pull_fields, send_fields

SEND, PULL, CREATE_TOPIC = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, RequestCode.UPDATE_AND_CREATE_TOPIC
TOPIC = "bad-input"
MAX_BODY = 4 * 1024 * 1024


@pytest.fixture
def line(ember: Served) -> Iterator[Line]:
    """A connection on which a good request must be answered as ever, whatever the test has asked before."""
    with Line(ember.broker) as line:
        make_topic(line, TOPIC)
        yield line
        sent = line.ask(SEND, send_fields(TOPIC), b"still here")
        assert sent.code == ResponseCode.SUCCESS, sent
        pulled = line.ask(PULL, pull_fields(TOPIC, int(sent.fields["queueOffset"])))
        assert pulled.code == ResponseCode.SUCCESS and b"still here" in pulled.data


def make_topic(line: Line, name: str, *, permission: int = 6) -> None:
    fields = {"topic": name, "readQueueNums": "4", "writeQueueNums": "4", "perm": str(permission)}
    answer = line.ask(CREATE_TOPIC, {**fields, "topicFilterType": "SINGLE_TAG", "defaultTopic": "TBW102"})
    assert answer.code == ResponseCode.SUCCESS, answer


def check(answer: Command, code: int, *words: str) -> None:
    """The answer has this code, and its remark all of these words."""
    assert answer.code == code, answer
    assert answer.remark is not None
    assert [word for word in words if word not in answer.remark] == [], answer.remark


@pytest.mark.parametrize("code", [0, 9999, -1, 2**31 - 1])
def test_an_unknown_request(line: Line, code: int) -> None:
    check(line.ask(code), ResponseCode.NOT_SUPPORTED, f"request type {code} not supported")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (50, "createUser"),
        (354, "nothing to compare"),
        (902, "start another process"),
        (908, "nothing to replicate"),
        (1007, "nothing to replicate"),
        (2003, "no limits"),
        (3005, "start the server with --access"),
    ],
)
def test_a_request_for_what_there_is_not_is_told_why(line: Line, code: int, reason: str) -> None:
    check(line.ask(code), ResponseCode.NOT_SUPPORTED, f"request type {code} not supported", reason)


@pytest.mark.parametrize(
    "body", [b"", b"no JSON", b'{"clientID":', b"[]", b"null", b'{"clientID":5,"clientId":[],"subscriptionData":1}']
)
@pytest.mark.parametrize(
    "code",
    [
        RequestCode.HEART_BEAT,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
    ],
)
def test_a_body_that_cannot_be_read(line: Line, code: int, body: bytes) -> None:
    check(line.ask(code, body=body), ResponseCode.INVALID_PARAMETER, "'body'")


@pytest.mark.parametrize("name", ["topic", "queueId", "queueOffset", "consumerGroup"])
def test_a_field_that_is_missing(line: Line, name: str) -> None:
    fields = {key: value for key, value in pull_fields(TOPIC).items() if key != name}
    check(line.ask(PULL, fields), ResponseCode.INVALID_PARAMETER, repr(name), "missing")


@pytest.mark.parametrize("name", ["queueId", "queueOffset", "maxMsgNums", "sysFlag", "suspendTimeoutMillis"])
@pytest.mark.parametrize("value", ["many", "1.5", "9" * 40, "0x10", "１"])
def test_a_field_that_is_no_number(line: Line, name: str, value: str) -> None:
    check(line.ask(PULL, pull_fields(TOPIC) | {name: value}), ResponseCode.INVALID_PARAMETER, repr(name), "number")


def test_a_field_that_is_no_number_of_a_send(line: Line) -> None:
    answer = line.ask(SEND, send_fields(TOPIC) | {"e": "many"}, b"x")
    check(answer, ResponseCode.INVALID_PARAMETER, "'e'", "number")


def test_fields_that_are_no_text_are_taken_as_text(line: Line) -> None:
    fields: dict[str, object] = {**pull_fields(TOPIC), "queueId": 99, "commitOffset": None}
    header = {"code": 11, "extFields": fields, "flag": 0, "opaque": 5, "version": 479, "language": "JAVA"}
    line.send(encode_frame(JSON_FORM, json.dumps(header).encode(), 0))
    check(line.receive(), ResponseCode.INVALID_PARAMETER, "illegal queue 99", "0 to 3")


@pytest.mark.parametrize("fields", [[1], "text", {"topic": {"name": "x"}}, {"topic": ["x"]}])
def test_a_header_that_cannot_be_read_ends_the_connection_and_no_other(
    line: Line, ember: Served, fields: object
) -> None:
    header = json.dumps({"code": 11, "extFields": fields, "opaque": 5}).encode()
    with Line(ember.broker) as bad:
        bad.send(encode_frame(JSON_FORM, header, 0))
        assert bad.is_closed_by_peer()


def test_a_body_that_is_larger_than_allowed(line: Line) -> None:
    answer = line.ask(SEND, send_fields(TOPIC), bytes(MAX_BODY + 1))
    check(answer, ResponseCode.MESSAGE_ILLEGAL, str(MAX_BODY + 1), f"limit {MAX_BODY}", "max_message_size")


def test_a_body_that_is_as_large_as_allowed(line: Line) -> None:
    assert line.ask(SEND, send_fields(TOPIC), bytes(MAX_BODY)).code == ResponseCode.SUCCESS


def test_an_empty_body(line: Line) -> None:
    check(line.ask(SEND, send_fields(TOPIC)), ResponseCode.MESSAGE_ILLEGAL, "empty body", TOPIC)


def test_properties_that_are_larger_than_allowed(line: Line) -> None:
    answer = line.ask(SEND, send_fields(TOPIC, note="x" * 40_000), b"x")
    check(answer, ResponseCode.MESSAGE_ILLEGAL, "properties", "limit 32767")


def test_a_body_of_another_request_that_is_larger_than_allowed(line: Line) -> None:
    body = b'{"clientID":"' + b"x" * 2_000_000 + b'"}'
    check(line.ask(RequestCode.HEART_BEAT, {}, body), ResponseCode.INVALID_PARAMETER, "body", "limit 1048576")


def test_a_batch_that_lies_about_its_sizes(line: Line) -> None:
    body = (1_000_000).to_bytes(4, "big") + bytes(60)
    answer = line.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(TOPIC) | {"m": "true"}, body)
    check(answer, ResponseCode.MESSAGE_ILLEGAL, "batch", TOPIC)


@pytest.mark.parametrize("code", [PULL, RequestCode.GET_TOPIC_STATS, RequestCode.GET_TOPIC_CONFIG])
def test_a_topic_that_does_not_exist_is_told_with_the_nearest_that_does(line: Line, code: int) -> None:
    answer = line.ask(code, pull_fields("bad-imput"))
    check(
        answer,
        ResponseCode.TOPIC_NOT_EXIST,
        "'bad-imput'",
        f"nearest name is {TOPIC!r}",
        "ember topic create bad-imput",
    )


def test_a_topic_that_is_not_made_by_itself(line: Line) -> None:
    answer = line.ask(SEND, send_fields("bad-imput") | {"c": "no-template"}, b"x")
    check(answer, ResponseCode.TOPIC_NOT_EXIST, "'bad-imput'", repr(TOPIC))


@pytest.mark.parametrize("name", ["a b", "../outside", "x" * 128, "ü"])
def test_a_name_that_no_topic_may_have(line: Line, name: str) -> None:
    check(line.ask(SEND, send_fields(name), b"x"), ResponseCode.INVALID_PARAMETER, "illegal topic")


def test_topics_that_may_not_be_written_or_read(line: Line) -> None:
    make_topic(line, "only-read", permission=4)
    check(line.ask(SEND, send_fields("only-read"), b"x"), ResponseCode.NO_PERMISSION, "'only-read'", "write permission")
    make_topic(line, "only-write", permission=2)
    answer = line.ask(PULL, pull_fields("only-write"))
    check(answer, ResponseCode.NO_PERMISSION, "'only-write'", "read permission")
    assert answer.fields["forbiddenType"] == "3"


@pytest.mark.parametrize("name", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_topics_that_belong_to_the_broker(line: Line, name: str) -> None:
    check(line.ask(SEND, send_fields(name), b"x"), ResponseCode.NO_PERMISSION, name)


@pytest.mark.parametrize("queue", ["4", "-1", "2147483647"])
def test_a_queue_that_is_not_there(line: Line, queue: str) -> None:
    answer = line.ask(PULL, pull_fields(TOPIC) | {"queueId": queue})
    check(answer, ResponseCode.INVALID_PARAMETER, f"queue {queue}", "0 to 3")


@pytest.mark.parametrize(("offset", "word"), [(10**6, "OFFSET_OVERFLOW_BADLY"), (2**62, "OFFSET_OVERFLOW_BADLY")])
def test_an_offset_beyond_the_end_is_sent_back_to_it(line: Line, offset: int, word: str) -> None:
    sent = line.ask(SEND, send_fields(TOPIC), b"x")
    answer = line.ask(PULL, pull_fields(TOPIC, offset))
    check(answer, ResponseCode.PULL_OFFSET_MOVED, word)
    end = int(sent.fields["queueOffset"]) + 1
    assert (answer.fields["nextBeginOffset"], answer.fields["maxOffset"]) == (str(end), str(end))


def test_an_offset_before_the_beginning_is_sent_there(line: Line) -> None:
    assert line.ask(SEND, send_fields(TOPIC), b"x").code == ResponseCode.SUCCESS
    answer = line.ask(PULL, pull_fields(TOPIC, -5))
    check(answer, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL")
    assert answer.fields["nextBeginOffset"] == "0"


def test_a_group_that_nobody_made(tmp_path: Path) -> None:
    config = tmp_path / "ember.toml"
    config.write_text("[broker]\nauto_create_groups = false\n")
    with serving(tmp_path, "-c", str(config)) as served, Line(served.broker) as line:
        make_topic(line, TOPIC)
        answer = line.ask(PULL, pull_fields(TOPIC))
        check(answer, ResponseCode.GROUP_NOT_EXIST, "'billing'", "ember group create billing")
        fields = {"consumerGroup": "billing", "topic": TOPIC, "queueId": "0", "commitOffset": "1"}
        answer = line.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        check(answer, ResponseCode.GROUP_NOT_EXIST, "'billing'", "ember group create billing")
        assert line.ask(RequestCode.UPDATE_AND_CREATE_GROUP, {}, b'{"groupName":"billing"}').code == 0
        assert line.ask(PULL, pull_fields(TOPIC)).code == ResponseCode.PULL_NOT_FOUND


SQL = {"expressionType": "SQL92", "sysFlag": "4"}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("a >", ("column 4", "expected")),
        ("a = 'x", ("column 5", "expected")),
        ("a BETWEEN 10 AND 1", ("10", "1")),
        ("a LIKE 'x%'", ("column 3", "expected")),
    ],
)
def test_a_filter_that_cannot_be_read(line: Line, expression: str, words: tuple[str, ...]) -> None:
    answer = line.ask(PULL, pull_fields(TOPIC, subscription=expression, **SQL))
    check(answer, ResponseCode.SUBSCRIPTION_PARSE_FAILED, *words)


def test_a_filter_that_is_too_large(line: Line) -> None:
    subscription = {"topic": TOPIC, "expressionType": "SQL92", "subString": "a > 1 OR " * 9_000 + "a > 1"}
    body = json.dumps({"clientId": "c", "group": "g", "subscriptionData": subscription}).encode()
    answer = line.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)
    check(answer, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "limit 65536")


@pytest.mark.parametrize(("offset", "position"), [("0", str(1 << 40)), ("99", "0"), ("-1", "-1")])
def test_an_end_of_a_transaction_that_never_began(line: Line, offset: str, position: str) -> None:
    fields = {
        "producerGroup": "payers", "tranStateTableOffset": offset, "commitLogOffset": position,
        "commitOrRollback": "8", "fromTransactionCheck": "false", "msgId": "none",
    }  # fmt: skip
    answer = line.ask(RequestCode.END_TRANSACTION, fields)
    check(answer, ResponseCode.SYSTEM_ERROR, position, "end a transaction where it began")


def test_a_pop_of_a_group_that_nobody_made(tmp_path: Path) -> None:
    config = tmp_path / "ember.toml"
    config.write_text("[broker]\nauto_create_groups = false\n")
    with serving(tmp_path, "-c", str(config)) as served, Line(served.broker) as line:
        make_topic(line, TOPIC)
        answer = line.ask(RequestCode.POP_MESSAGE, pop_fields())
        check(answer, ResponseCode.GROUP_NOT_EXIST, "'poppers'", "ember group create poppers")


def pop_fields() -> dict[str, str]:
    return {
        "consumerGroup": "poppers", "topic": TOPIC, "queueId": "-1", "maxMsgNums": "8", "invisibleTime": "60000",
        "pollTime": "0", "bornTime": "0", "initMode": "0", "expType": "TAG", "exp": "*", "order": "false",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "code", "word"),
    [
        ("rubbish", ResponseCode.INVALID_PARAMETER, "send POP_CK as it came"),
        ("0 1 2 99 0 broker-a 0 0", ResponseCode.MESSAGE_ILLEGAL, "revive queue 99"),
        ("0 99999999999999 2 1 0 broker-a 0 0", ResponseCode.MESSAGE_ILLEGAL, "a time that no pop"),
    ],
)
def test_an_ack_with_a_forged_handle(line: Line, extra: str, code: int, word: str) -> None:
    assert line.ask(SEND, send_fields(TOPIC), b"x").code == ResponseCode.SUCCESS
    fields = {"consumerGroup": "poppers", "topic": TOPIC, "queueId": "0", "offset": "0", "extraInfo": extra}
    check(line.ask(RequestCode.ACK_MESSAGE, fields), code, word)


def test_a_time_of_delivery_beyond_the_limit_or_in_the_past(line: Line) -> None:
    far = send_fields(TOPIC, UNIQ_KEY="far", TIMER_DELAY_SEC=str(365 * 86_400))
    check(line.ask(SEND, far, b"far"), ResponseCode.MESSAGE_ILLEGAL, "timer_max_delay_s", f"{14 * 86_400} s")
    past = send_fields(TOPIC, UNIQ_KEY="past", TIMER_DELIVER_MS="1700000000000")
    sent = line.ask(SEND, past, b"at once")
    assert sent.code == ResponseCode.SUCCESS and "recallHandle" not in sent.fields
    pulled = line.ask(PULL, pull_fields(TOPIC, int(sent.fields["queueOffset"])))
    assert b"at once" in pulled.data


def test_signatures_that_are_missing_or_wrong(tmp_path: Path) -> None:
    config = tmp_path / "ember.toml"
    config.write_text(
        '[access]\nauthentication = true\nauthorization = true\nfirst_user = "root"\nfirst_password = "s3cret"\n'
    )
    with serving(tmp_path, "-c", str(config), "--access") as served, Line(served.broker) as line:
        fields, body = send_fields(TOPIC), b"signed"
        check(line.ask(SEND, fields, body), ResponseCode.NO_PERMISSION, "needs signed requests", "access key")
        for user, secret, sent in (
            ("root", "wrong", body),
            ("nobody", "s3cret", body),
            ("root", "s3cret", b"other body"),
        ):
            answer = line.ask(SEND, signed(fields, sent, access_key=user, secret=secret), body)
            check(answer, ResponseCode.NO_PERMISSION, repr(user), "check both")
        right = signed(fields, body, access_key="root", secret="s3cret")
        assert line.ask(SEND, right, body).code == ResponseCode.SUCCESS
        with Line(served.namesrv) as names:
            check(names.ask(RequestCode.GET_ROUTE_BY_TOPIC, {"topic": TOPIC}), ResponseCode.NO_PERMISSION, "signed")
    assert "s3cret" not in served.log.read_text()
