"""Who is connected: heartbeats, sign-offs, closed and silent connections, and what the others are told."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.broker.consumer_group import Conflict
from embermq.format.heartbeat_body import Consumes, Heartbeat
from embermq.model.codes import RequestCode
from embermq.model.group import GroupConfig
from embermq.model.subscription import Subscribed
from tests.unit.broker.consuming import Consuming, a_consuming, beat
from tests.unit.broker.peers import RecordingPeer

NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


@pytest.fixture
def consuming(tmp_path: Path) -> Iterator[Consuming]:
    with a_consuming(tmp_path / "s") as consuming:
        consuming.make_topic("orders")
        yield consuming


def groups_told(peer: RecordingPeer) -> list[str]:
    """The groups whose change a client was told of since the last time."""
    sent = peer.take_sent()
    assert all(command.code == NOTIFY and command.is_oneway for command in sent)
    return [command.fields["consumerGroup"] for command in sent]


def test_a_member_is_listed_as_soon_as_its_heartbeat_is_answered(consuming: Consuming) -> None:
    consuming.join("g", "one")
    assert consuming.membership.consumer_ids("g") == ["one"]
    assert consuming.membership.consumer_ids("h") == []
    assert consuming.membership.consumer("h") is None


def test_the_first_heartbeat_makes_the_group_and_its_retry_topic(consuming: Consuming) -> None:
    consuming.groups.save(GroupConfig("three", retry_queues=3))
    consuming.join("g", "one")
    consuming.join("three", "one")
    assert consuming.groups.find("g") == GroupConfig("g")
    retry, many = consuming.topics.find("%RETRY%g"), consuming.topics.find("%RETRY%three")
    assert retry is not None
    assert (retry.read_queues, retry.write_queues, retry.permission, retry.order) == (1, 1, 6, False)
    assert many is not None
    assert many.read_queues == 3


def test_the_retry_topic_is_ordered_like_what_the_group_reads(consuming: Consuming) -> None:
    consuming.make_topic("ordered", order=True)
    peer = consuming.join("g", "one", {"orders": "*"})
    consuming.join("g", "one", {"orders": "*", "ordered": "*"}, peer=peer)
    retry = consuming.topics.find("%RETRY%g")
    assert retry is not None
    assert retry.order


def test_an_unknown_group_is_skipped_where_none_is_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with a_consuming(tmp_path / "s", auto_create_groups=False) as consuming:
        consuming.groups.save(GroupConfig("known"))
        peer = RecordingPeer()
        for _ in range(2):
            beat(consuming, peer, Heartbeat("one", consumers=(Consumes("unknown"), Consumes("known"))))
        assert consuming.membership.consumer_ids("unknown") == []
        assert consuming.membership.consumer_ids("known") == ["one"]
        assert consuming.topics.find("%RETRY%unknown") is None
    refusals = [record for record in caplog.records if "member refused" in record.getMessage()]
    assert len(refusals) == 1  # told once, not every 30 seconds


def test_an_illegal_group_does_not_spoil_the_rest_of_a_heartbeat(consuming: Consuming) -> None:
    beat(consuming, RecordingPeer(), Heartbeat("one", consumers=(Consumes("no/group"), Consumes("g"))))
    assert consuming.membership.consumer_ids("g") == ["one"]
    assert consuming.membership.consumer_ids("no/group") == []


def test_members_are_told_when_one_comes_and_when_one_goes(consuming: Consuming) -> None:
    one = consuming.join("g", "one")
    assert groups_told(one) == ["g"]
    two = consuming.join("g", "two")
    assert (groups_told(one), groups_told(two)) == (["g"], ["g"])
    consuming.join("g", "two", peer=two)
    assert (groups_told(one), groups_told(two)) == ([], [])  # nothing new
    consuming.membership.unregister(two, "two", None, "g")
    assert (groups_told(one), groups_told(two)) == (["g"], [])
    three = consuming.join("g", "three")
    one.take_sent()
    three.close()
    consuming.membership.forget(three)
    assert groups_told(one) == ["g"]
    assert consuming.membership.consumer_ids("g") == ["one"]


def test_members_are_told_when_a_topic_is_added_or_dropped_but_not_of_a_new_expression(consuming: Consuming) -> None:
    one = consuming.join("g", "one", {"orders": "*"})
    one.take_sent()
    consuming.join("g", "one", {"orders": "*", "bills": "*"}, peer=one)
    assert groups_told(one) == ["g"]
    consuming.join("g", "one", {"orders": "eu", "bills": "*"}, peer=one, version=2)
    assert groups_told(one) == []
    found = consuming.membership.find_subscription("g", "orders")
    assert found is not None
    assert found.expression == "eu"
    consuming.join("g", "one", {"orders": "eu"}, peer=one, version=2)
    assert groups_told(one) == ["g"]
    assert consuming.membership.find_subscription("g", "bills") is None


def test_broadcasting_groups_and_groups_that_do_not_want_it_are_not_told(consuming: Consuming) -> None:
    consuming.groups.save(GroupConfig("quiet", notifies_members=False))
    one = consuming.join("g", "one", message_model="BROADCASTING")
    consuming.join("g", "two", message_model="BROADCASTING")
    three = consuming.join("quiet", "three")
    consuming.join("quiet", "four")
    assert one.sent == three.sent == []


def test_nobody_is_told_where_the_broker_does_not_notify(tmp_path: Path) -> None:
    with a_consuming(tmp_path / "s", notify_members=False) as consuming:
        one = consuming.join("g", "one")
        consuming.join("g", "two")
        assert one.sent == []


def test_a_heartbeat_of_a_closed_connection_registers_nothing(consuming: Consuming) -> None:
    peer = RecordingPeer()
    peer.close()
    beat(consuming, peer, Heartbeat("one", ("p",), (Consumes("g"),)))
    assert consuming.membership.consumer_ids("g") == []
    assert consuming.membership.producers("p") == []
    assert consuming.membership.producer_peer("one") is None


def test_a_silent_client_is_forgotten_closed_and_the_others_are_told(consuming: Consuming) -> None:
    silent, alive = consuming.join("g", "silent"), consuming.join("g", "alive")
    consuming.clock.advance(ms=119_000)
    consuming.join("g", "alive", peer=alive)
    consuming.membership.expire()
    assert consuming.membership.consumer_ids("g") == ["silent", "alive"]
    consuming.clock.advance(ms=2_000)
    alive.take_sent()
    consuming.membership.expire()
    assert consuming.membership.consumer_ids("g") == ["alive"]
    assert silent.is_closed
    assert not alive.is_closed
    assert groups_told(alive) == ["g"]


def test_a_client_is_no_longer_in_groups_that_it_does_not_tell_of(consuming: Consuming) -> None:
    peer, other = RecordingPeer(), consuming.join("left", "other")
    beat(consuming, peer, Heartbeat("one", ("p", "q"), (Consumes("left"), Consumes("g"))))
    consuming.clock.advance(ms=100_000)
    consuming.join("left", "other", peer=other)
    beat(consuming, peer, Heartbeat("one", ("p",), (Consumes("g"),)))
    consuming.clock.advance(ms=100_000)
    other.take_sent()
    consuming.membership.expire()
    assert not peer.is_closed
    assert consuming.membership.consumer_ids("g") == ["one"]
    assert consuming.membership.producer_groups() == ["p"]
    assert consuming.membership.consumer_ids("left") == ["other"]
    assert groups_told(other) == ["left"]


def test_a_client_that_comes_back_is_listed_once(consuming: Consuming) -> None:
    old = consuming.join("g", "one")
    new = consuming.join("g", "one")
    assert consuming.membership.consumer_ids("g") == ["one"]
    old.close()
    consuming.membership.forget(old)
    assert consuming.membership.consumer_ids("g") == ["one"]
    group = consuming.membership.consumer("g")
    assert group is not None
    member = group.find_member("one")
    assert member is not None
    assert member.peer is new


def test_the_last_member_takes_the_group_with_it(consuming: Consuming) -> None:
    peer = consuming.join("g", "one")
    consuming.membership.unregister(peer, "one", None, "g")
    assert consuming.membership.consumer("g") is None
    assert consuming.membership.find_subscription("g", "orders") is None
    assert consuming.membership.subscribers("orders") == []


def test_an_older_version_of_a_subscription_does_not_replace_a_newer_one(consuming: Consuming) -> None:
    consuming.join("g", "one", {"orders": "new"}, version=5)
    old = consuming.join("g", "two", {"orders": "old"}, version=4)
    found = consuming.membership.find_subscription("g", "orders")
    assert found is not None
    assert found.expression == "new"
    assert consuming.membership.consumer_ids("g") == ["one", "two"]
    assert not old.is_closed


def test_what_only_one_member_wanted_goes_with_it(consuming: Consuming) -> None:
    consuming.join("g", "one", {"orders": "old"}, version=4)
    two = consuming.join("g", "two", {"orders": "new", "bills": "*"}, version=5)
    consuming.membership.forget(two)
    found = consuming.membership.find_subscription("g", "orders")
    assert found is not None
    assert found.expression == "old"
    assert consuming.membership.find_subscription("g", "bills") is None


def test_pulls_of_a_group_are_looked_at_again_when_it_wants_something_else(consuming: Consuming) -> None:
    told: list[str] = []
    consuming.membership.note_filter = told.append
    consuming.join("g", "one", {"orders": "old"}, version=4)
    assert told == []
    two = consuming.join("g", "two", {"orders": "new"}, version=5)
    consuming.join("g", "three", {"orders": "new"}, version=6)
    assert told == ["orders"]
    consuming.membership.forget(two)
    assert told == ["orders"]
    consuming.membership.forget(consuming.join("g", "four", {"orders": "old"}, version=7))
    assert told == ["orders"] * 3


def test_members_that_disagree_are_reported_once_and_again_when_it_changes(
    consuming: Consuming, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        caplog.clear()
        return found

    one = consuming.join("g", "one", {"orders": "eu"})
    assert warnings() == []
    two = consuming.join("g", "two", {"orders": "us"})
    (warning,) = warnings()
    assert "group=g topic=orders" in warning
    assert '"eu" by one' in warning
    assert '"us" by two' in warning
    assert consuming.membership.conflicts("g") == [Conflict("orders", {'"eu"': ("one",), '"us"': ("two",)})]
    for version in (2, 3):  # heartbeats go on, and nothing changes
        consuming.join("g", "one", {"orders": "eu"}, peer=one, version=version)
        consuming.join("g", "two", {"orders": "us"}, peer=two, version=version)
    assert warnings() == []
    consuming.join("g", "two", {"orders": "asia"}, peer=two, version=9)
    (warning,) = warnings()
    assert '"asia" by two' in warning
    consuming.join("g", "two", {"orders": " eu "}, peer=two, version=10)  # the same tags
    assert warnings() == []
    assert consuming.membership.conflicts("g") == []


def test_a_member_that_does_not_read_a_topic_disagrees_too(consuming: Consuming) -> None:
    consuming.join("g", "one", {"orders": "*"})
    consuming.join("g", "two", {"orders": "*", "bills": "*"})
    assert consuming.membership.conflicts("g") == [Conflict("bills", {"nothing": ("one",), '"*"': ("two",)})]
    assert consuming.membership.conflicts("h") == []


def test_a_conflict_is_over_when_the_member_is_gone(consuming: Consuming) -> None:
    consuming.join("g", "one", {"orders": "eu"})
    two = consuming.join("g", "two", {"orders": "us"})
    consuming.membership.forget(two)
    assert consuming.membership.conflicts("g") == []


def full(client_id: str, fingerprint: int) -> Heartbeat:
    return Heartbeat(client_id, consumers=(Consumes("g", (Subscribed("orders"),)),), fingerprint=fingerprint)


def short(client_id: str, fingerprint: int) -> Heartbeat:
    return Heartbeat(client_id, consumers=(Consumes("g"),), fingerprint=fingerprint, omits_subscriptions=True)


def test_a_short_heartbeat_keeps_the_subscriptions(consuming: Consuming) -> None:
    peer = RecordingPeer()
    assert beat(consuming, peer, full("one", 7)).fields["IS_SUB_CHANGE"] == "false"
    peer.take_sent()
    consuming.clock.advance(ms=100_000)
    assert beat(consuming, peer, short("one", 7)).fields["IS_SUB_CHANGE"] == "false"
    consuming.clock.advance(ms=100_000)
    consuming.membership.expire()
    assert consuming.membership.consumer_ids("g") == ["one"]
    assert consuming.membership.find_subscription("g", "orders") == Subscribed("orders")
    assert groups_told(peer) == []


def test_a_member_with_another_fingerprint_makes_everybody_send_all(consuming: Consuming) -> None:
    one, two = RecordingPeer(), RecordingPeer()
    beat(consuming, one, full("one", 7))
    assert beat(consuming, two, full("two", 8)).fields["IS_SUB_CHANGE"] == "true"
    assert beat(consuming, one, short("one", 7)).fields["IS_SUB_CHANGE"] == "true"


def test_a_short_heartbeat_of_somebody_unknown_asks_for_a_full_one(consuming: Consuming) -> None:
    peer = RecordingPeer()
    assert beat(consuming, peer, short("one", 7)).fields["IS_SUB_CHANGE"] == "true"
    assert consuming.membership.consumer_ids("g") == ["one"]
    assert consuming.membership.find_subscription("g", "orders") is None
    assert beat(consuming, peer, full("one", 7)).fields["IS_SUB_CHANGE"] == "false"
    assert consuming.membership.find_subscription("g", "orders") is not None


def test_a_client_that_comes_back_with_a_short_heartbeat_is_known(consuming: Consuming) -> None:
    old = RecordingPeer()
    beat(consuming, old, full("one", 7))
    new = RecordingPeer()
    assert beat(consuming, new, short("one", 7)).fields["IS_SUB_CHANGE"] == "false"
    consuming.membership.forget(old)
    assert consuming.membership.find_subscription("g", "orders") is not None


def test_replies_find_a_producer_until_it_leaves_its_last_group(consuming: Consuming) -> None:
    peer = RecordingPeer()
    beat(consuming, peer, Heartbeat("one", ("p", "q")))
    assert [client.client_id for client in consuming.membership.producers("p")] == ["one"]
    assert sorted(consuming.membership.producer_groups()) == ["p", "q"]
    consuming.membership.unregister(peer, "one", "p", None)
    assert consuming.membership.producers("p") == []
    assert consuming.membership.producer_peer("one") is peer
    consuming.membership.unregister(peer, "one", "q", None)
    assert consuming.membership.producer_peer("one") is None


def test_replies_find_a_consumer_too_and_nobody_who_is_gone(consuming: Consuming) -> None:
    peer = consuming.join("g", "one")
    assert consuming.membership.producer_peer("one") is peer
    consuming.membership.forget(peer)
    assert consuming.membership.producer_peer("one") is None


def test_who_asks_before_its_first_heartbeat_gets_its_reply(consuming: Consuming) -> None:
    peer, other = RecordingPeer(), RecordingPeer()
    consuming.membership.note_requester("one", peer)
    assert consuming.membership.producer_peer("one") is peer
    beat(consuming, peer, Heartbeat("one", ("p",)))
    consuming.membership.note_requester("one", other)
    assert consuming.membership.producer_peer("one") is peer  # a send does not take a client's place
    peer.close()
    consuming.membership.note_requester("one", other)
    assert consuming.membership.producer_peer("one") is other
    consuming.membership.forget(other)
    assert consuming.membership.producer_peer("one") is None


def test_one_connection_stands_for_a_limited_number_of_clients(consuming: Consuming) -> None:
    peer = RecordingPeer()
    for number in range(2000):
        consuming.membership.note_requester(f"c{number}", peer)
    assert consuming.membership.producer_peer("c1023") is peer
    assert consuming.membership.producer_peer("c1024") is None
