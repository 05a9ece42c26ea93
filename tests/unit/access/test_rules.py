"""What requests need, where that is not plain from their fields."""

from __future__ import annotations

import pytest

from embermq.access.rules import needs_of
from embermq.format.command import make_request
from embermq.model.access import Action, Kind, Resource
from embermq.model.codes import RequestCode


@pytest.mark.parametrize("code", [RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLE_TIME])
@pytest.mark.parametrize("topic", ["orders", "%RETRY%billing_orders", "%RETRY%billing+orders"])
def test_who_may_pop_a_topic_may_acknowledge_what_comes_again(code: int, topic: str) -> None:
    request = make_request(code, {"topic": topic, "consumerGroup": "billing"})
    needs = {need.resource: need.actions for need in needs_of(request, cluster_name="c")}
    assert needs == {Resource(Kind.TOPIC, "orders"): (Action.SUB,), Resource(Kind.GROUP, "billing"): (Action.SUB,)}
