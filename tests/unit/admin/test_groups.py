"""Members that want different things."""

from __future__ import annotations

from embermq.admin.groups import find_conflicts
from embermq.admin.topics import kind_of


def test_members_that_want_the_same_are_no_conflict() -> None:
    assert find_conflicts({}) == ()
    assert find_conflicts({"a": {"orders": "*"}, "b": {"orders": "*"}}) == ()


def test_members_that_want_different_things_are_named_with_what_they_want() -> None:
    wants = {"a": {"orders": "eu"}, "b": {"orders": "us"}, "c": {"orders": "eu"}, "d": {}}
    lines = find_conflicts(wants)
    assert sorted(lines) == ["a, c: orders with 'eu'", "b: orders with 'us'", "d: nothing"]


def test_topics_are_told_apart_by_their_names() -> None:
    assert kind_of("orders") == "normal"
    assert kind_of("%RETRY%billing") == "retry"
    assert kind_of("%DLQ%billing") == "dead letters"
    assert kind_of("rmq_sys_anything") == kind_of("TBW102") == kind_of("broker-a", frozenset({"broker-a"})) == "system"
