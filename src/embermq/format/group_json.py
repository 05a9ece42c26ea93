"""One consumer group in the JSON of subscriptionGroup.json, and in that of the wire."""

from __future__ import annotations

from embermq.format.json_fields import Fields, read_integer
from embermq.model.group import ExponentialRetry, GroupConfig, RetryPolicy, Subscription


def read_group(name: str, value: object) -> GroupConfig:
    """The group that a JSON object describes. Raises CorruptRecord."""
    fields = Fields(value, f"group {name}")
    default = GroupConfig(name)
    return GroupConfig(
        name=fields.text("groupName", name),
        may_consume=fields.boolean("consumeEnable", default.may_consume),
        may_consume_from_min=fields.boolean("consumeFromMinEnable", default.may_consume_from_min),
        may_broadcast=fields.boolean("consumeBroadcastEnable", default.may_broadcast),
        is_orderly=fields.boolean("consumeMessageOrderly", default.is_orderly),
        retry_queues=fields.integer("retryQueueNums", default.retry_queues),
        max_retries=fields.integer("retryMaxTimes", default.max_retries),
        retry_policy=_read_policy(fields.find_fields("groupRetryPolicy")),
        broker_id=fields.integer("brokerId", default.broker_id),
        slow_broker_id=fields.integer("whichBrokerWhenConsumeSlowly", default.slow_broker_id),
        notifies_members=fields.boolean("notifyConsumerIdsChangedEnable", default.notifies_members),
        sys_flag=fields.integer("groupSysFlag", default.sys_flag),
        consume_timeout_minutes=fields.integer("consumeTimeoutMinute", default.consume_timeout_minutes),
        subscriptions=_read_subscriptions(fields.find_list("subscriptionDataSet"), name),
        attributes=fields.texts("attributes"),
    )


def group_members(group: GroupConfig) -> dict[str, object]:
    """The members of the JSON object of `group`, in RocketMQ's order."""
    members: dict[str, object] = {
        "attributes": group.attributes,
        "brokerId": group.broker_id,
        "consumeBroadcastEnable": group.may_broadcast,
        "consumeEnable": group.may_consume,
        "consumeFromMinEnable": group.may_consume_from_min,
        "consumeMessageOrderly": group.is_orderly,
        "consumeTimeoutMinute": group.consume_timeout_minutes,
        "groupName": group.name,
        "groupRetryPolicy": _policy_members(group.retry_policy),
        "groupSysFlag": group.sys_flag,
        "notifyConsumerIdsChangedEnable": group.notifies_members,
        "retryMaxTimes": group.max_retries,
        "retryQueueNums": group.retry_queues,
    }
    if group.subscriptions is not None:
        members["subscriptionDataSet"] = tuple(map(_subscription_members, group.subscriptions))
    members["whichBrokerWhenConsumeSlowly"] = group.slow_broker_id
    return members


def _read_policy(fields: Fields | None) -> RetryPolicy:
    if fields is None:
        return RetryPolicy()
    exponential = fields.find_fields("exponentialRetryPolicy")
    customized = fields.find_fields("customizedRetryPolicy")
    waits = customized.find_list("next") if customized else None
    return RetryPolicy(
        kind=fields.text("type", RetryPolicy().kind),
        exponential=_read_exponential(exponential) if exponential else None,
        waits_ms=None if waits is None else tuple(read_integer(wait, "next") for wait in waits),
    )


def _read_exponential(fields: Fields) -> ExponentialRetry:
    default = ExponentialRetry()
    return ExponentialRetry(
        initial_ms=fields.integer("initial", default.initial_ms),
        max_ms=fields.integer("max", default.max_ms),
        multiplier=fields.integer("multiplier", default.multiplier),
    )


def _policy_members(policy: RetryPolicy) -> dict[str, object]:
    members: dict[str, object] = {}
    if policy.waits_ms is not None:
        members["customizedRetryPolicy"] = {"next": policy.waits_ms}
    if policy.exponential is not None:
        retry = policy.exponential
        members["exponentialRetryPolicy"] = {
            "initial": retry.initial_ms,
            "max": retry.max_ms,
            "multiplier": retry.multiplier,
        }
    members["type"] = policy.kind
    return members


def _read_subscriptions(values: list[object] | None, group: str) -> tuple[Subscription, ...] | None:
    if values is None:
        return None
    every = [Fields(value, f"group {group}.subscriptionDataSet") for value in values]
    return tuple(
        Subscription(
            topic=fields.text("topic", ""),
            expression=fields.text("expression", "*"),
            expression_type=fields.text("expressionType", "TAG"),
            version=fields.integer("version"),
        )
        for fields in every
    )


def _subscription_members(subscription: Subscription) -> dict[str, object]:
    return {
        "expression": subscription.expression,
        "expressionType": subscription.expression_type,
        "topic": subscription.topic,
        "version": subscription.version,
    }
