"""Requests and answers as RocketMQ's figures name them: mostly as here, in small letters."""

from __future__ import annotations

from typing import Final

from embermq.model.codes import RequestCode, ResponseCode

_REQUESTS: Final = {
    RequestCode.GET_EARLIEST_STORE_TIME: "get_earliest_msg_storetime",
    RequestCode.GET_ROUTE_BY_TOPIC: "get_routeinfo_by_topic",
    RequestCode.UPDATE_AND_CREATE_GROUP: "update_and_create_subscriptiongroup",
    RequestCode.GET_ALL_GROUP_CONFIG: "get_all_subscriptiongroup_config",
    RequestCode.GET_TOPIC_STATS: "get_topic_stats_info",
    RequestCode.GET_CONSUMER_CONNECTIONS: "get_consumer_connection_list",
    RequestCode.GET_PRODUCER_CONNECTIONS: "get_producer_connection_list",
    RequestCode.WIPE_WRITE_PERM: "wipe_write_perm_of_broker",
    RequestCode.GET_ALL_TOPICS_FROM_NAMESERVER: "get_all_topic_list_from_nameserver",
    RequestCode.DELETE_GROUP: "delete_subscriptiongroup",
    RequestCode.DELETE_TOPIC_IN_NAMESERVER: "delete_topic_in_namesrv",
    RequestCode.REGISTER_TOPIC_IN_NAMESERVER: "register_topic_in_namesrv",
    RequestCode.GET_KV_LIST: "get_kvlist_by_namespace",
    RequestCode.RESET_CLIENT_OFFSET: "reset_consumer_client_offset",
    RequestCode.GET_STATUS_FROM_CLIENT: "get_consumer_status_from_client",
    RequestCode.RESET_OFFSET: "invoke_broker_to_reset_offset",
    RequestCode.GET_CONSUMER_STATUS: "invoke_broker_to_get_consumer_status",
    RequestCode.UPDATE_AND_CREATE_GROUP_LIST: "update_and_create_subscriptiongroup_list",
    RequestCode.QUERY_TOPIC_CONSUMERS: "query_topic_consume_by_who",
    RequestCode.GET_SYSTEM_TOPICS_FROM_NAMESERVER: "get_system_topic_list_from_ns",
    RequestCode.GET_SYSTEM_TOPICS_FROM_BROKER: "get_system_topic_list_from_broker",
    RequestCode.CLEAN_EXPIRED_QUEUES: "clean_expired_consumequeue",
    RequestCode.CONSUME_DIRECTLY: "consume_message_directly",
    RequestCode.GET_UNIT_TOPICS: "get_unit_topic_list",
    RequestCode.GET_HAS_UNIT_SUB_TOPICS: "get_has_unit_sub_topic_list",
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPICS: "get_has_unit_sub_ununit_topic_list",
    RequestCode.VIEW_BROKER_STATS: "view_broker_stats_data",
    RequestCode.CLEAN_UNUSED_TOPICS: "clean_unused_topic",
    RequestCode.UPDATE_NAMESERVER_CONFIG: "update_namesrv_config",
    RequestCode.GET_NAMESERVER_CONFIG: "get_namesrv_config",
    RequestCode.PUSH_REPLY_TO_CLIENT: "push_reply_message_to_client",
    RequestCode.ADD_WRITE_PERM: "add_write_perm_of_broker",
    RequestCode.GET_ALL_PRODUCERS: "get_all_producer_info",
    RequestCode.DELETE_EXPIRED_LOG: "delete_expired_commitlog",
    RequestCode.QUERY_SUBSCRIPTION: "query_subscription_by_consumer",
    RequestCode.GET_GROUP_CONFIG: "get_subscriptiongroup_config",
}
_ANSWERS: Final = {
    ResponseCode.NOT_SUPPORTED: "request_code_not_supported",
    ResponseCode.GROUP_NOT_EXIST: "subscription_group_not_exist",
}


def request_name(code: int) -> str:
    """The name of a request; of one that is not known, its number."""
    if code not in RequestCode.__members__.values():
        return str(code)
    known = RequestCode(code)
    return _REQUESTS.get(known, known.name.lower())


def answer_name(code: int) -> str:
    """How a request ended; of a code that is not known, the number."""
    if code not in ResponseCode.__members__.values():
        return str(code)
    known = ResponseCode(code)
    return _ANSWERS.get(known, known.name.lower())
