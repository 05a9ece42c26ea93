"""Signatures of requests. The expected ones are what RocketMQ's own client makes of these fields."""

from __future__ import annotations

import pytest

from embermq.format.signature import ACCESS_KEY, SIGNATURE, content, sign, signed

SECRET = "12345678"


@pytest.mark.parametrize(
    ("fields", "body", "text", "signature"),
    [
        ({"topic": "TopicTest"}, b"", b"rocketmq2TopicTest", "GeeGoP9mRvDhoVp4PD5omX0prgE="),
        (
            {"e": "0", "b": "TopicTest", "a": "pg"},
            b"hello",
            b"rocketmq2pgTopicTest0hello",
            "KLB3qgOwlAS6r4RFOio7rIuDoV8=",
        ),
    ],
)
def test_a_request_is_signed_as_rocketmq_signs_it(
    fields: dict[str, str], body: bytes, text: bytes, signature: str
) -> None:
    fields = {**fields, ACCESS_KEY: "rocketmq2"}
    assert content(fields, body) == text
    assert sign(fields, body, SECRET) == signature


def test_the_signature_itself_is_not_signed() -> None:
    made = signed({"topic": "TopicTest"}, b"", access_key="rocketmq2", secret=SECRET)
    assert made[SIGNATURE] == sign(made, b"", SECRET)
    assert made[ACCESS_KEY] == "rocketmq2"


def test_what_old_clients_add_after_signing_is_left_out_for_them() -> None:
    fields = {"key": "k", "_UNIQUE_KEY_QUERY": "true"}
    assert content(fields, b"", version=399) == b"k"
    assert content(fields, b"", version=400) == b"truek"


def test_any_change_changes_the_signature() -> None:
    fields = {ACCESS_KEY: "a", "topic": "orders"}
    made = {
        sign(fields, b"", "s1"),
        sign(fields, b"", "s2"),
        sign(fields, b"x", "s1"),
        sign({**fields, "topic": "order"}, b"", "s1"),
    }
    assert len(made) == 4
