"""Which policy entry decides."""

from __future__ import annotations

import pytest

from embermq.errors import IllegalField
from embermq.model.access import Action, Entry, Kind, Pattern, Policy, Resource, parse_sources

ORDERS = Resource(Kind.TOPIC, "orders-eu")


def an_entry(pattern: str, decision: str, *actions: Action) -> Entry:
    return Entry(Pattern.parse(pattern), frozenset(actions or {Action.ALL}), allows=decision == "Allow")


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], False),
        ([("*", "Allow")], True),
        ([("Topic:*", "Allow")], True),
        ([("Group:*", "Allow")], False),
        ([("Topic:orders*", "Allow")], True),
        ([("Topic:orders-us*", "Allow")], False),
        ([("Topic:orders-eu", "Allow")], True),
        ([("Topic:orders", "Allow")], False),
        ([("*", "Allow"), ("Topic:*", "Deny")], False),
        ([("Topic:*", "Allow"), ("*", "Deny")], True),
        ([("Topic:orders*", "Allow"), ("Topic:*", "Deny")], True),
        ([("Topic:o*", "Allow"), ("Topic:orders*", "Deny")], False),
        ([("Topic:orders-eu*", "Deny"), ("Topic:orders-eu", "Allow")], True),
        ([("Topic:orders-eu*", "Allow"), ("Topic:orders-eu", "Deny")], False),
        ([("Topic:orders-eu", "Allow"), ("Topic:orders-eu", "Deny")], False),
        ([("Topic:orders-eu", "Deny"), ("Topic:orders-eu", "Allow")], False),
        ([("*", "Deny"), ("*", "Allow")], False),
    ],
)
def test_the_closest_entry_decides_and_a_denial_wins_a_tie(entries: list[tuple[str, str]], allowed: bool) -> None:
    policy = Policy(custom=tuple(an_entry(*entry) for entry in entries))
    assert policy.allows(ORDERS, Action.SUB, "192.0.2.7") is allowed


def test_entries_about_other_actions_do_not_decide() -> None:
    policy = Policy(custom=(an_entry("Topic:orders-eu", "Deny", Action.PUB), an_entry("Topic:*", "Allow", Action.SUB)))
    assert policy.allows(ORDERS, Action.SUB, "192.0.2.7")
    assert not policy.allows(ORDERS, Action.PUB, "192.0.2.7")


def test_default_entries_count_where_no_custom_one_fits() -> None:
    policy = Policy(custom=(an_entry("*", "Deny", Action.PUB),), default=(an_entry("Topic:orders-eu", "Allow"),))
    assert policy.allows(ORDERS, Action.SUB, "192.0.2.7")
    assert not policy.allows(ORDERS, Action.PUB, "192.0.2.7")


def test_a_whole_kind_is_allowed_only_as_a_whole() -> None:
    everything = Resource(Kind.TOPIC, None)
    for pattern, allowed in [("Topic:orders-eu", False), ("Topic:o*", False), ("Topic:*", True), ("*", True)]:
        assert Policy(custom=(an_entry(pattern, "Allow"),)).allows(everything, Action.GET, "") is allowed


@pytest.mark.parametrize("text", ["*", "Topic:*", "Topic:pre*", "Group:name", "Cluster:DefaultCluster", "Topic:%DLQ%g"])
def test_a_pattern_is_printed_as_it_was_read(text: str) -> None:
    assert str(Pattern.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "Topic", "Topic:", "Queue:q", "Topic:a*b", "Topic:**", "orders", "Topic:" + "x" * 256]
)
def test_other_patterns_are_refused(text: str) -> None:
    with pytest.raises(IllegalField, match="resource"):
        Pattern.parse(text)


def test_sources_are_addresses_and_networks() -> None:
    assert [str(each) for each in parse_sources([" 10.0.0.1", "10.1.0.0/16"])] == ["10.0.0.1/32", "10.1.0.0/16"]
    with pytest.raises(IllegalField, match="sourceIps"):
        parse_sources(["10.0.0.*"])
