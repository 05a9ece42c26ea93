"""BrokerSettings: everything about a broker that can be set, its store's settings aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from embermq.model.flags import Permission
from embermq.model.setting import check_names, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """How one broker works; replaced as a whole when one of them is changed at run time."""

    cluster: str = setting("DefaultCluster", "name", "the cluster that the broker belongs to")
    name: str = setting("broker-a", "name", "the broker's name in routes; one per master")
    broker_id: int = setting(0, "number", "0 for a master")
    region: str = setting("DefaultRegion", "name", "told to producers, for their traces")
    permission: int = setting(
        Permission.READ | Permission.WRITE, "4 read + 2 write", "without a bit, the broker refuses such requests"
    )
    auto_create_topics: bool = setting(True, "yes or no", "the first message to an unknown topic makes it")
    auto_create_groups: bool = setting(True, "yes or no", "the first use of an unknown group makes it")
    template_queues: int = setting(8, "count", "most queues of a topic that is made by its first message")
    trace_topic: bool = setting(True, "yes or no", "make RMQ_SYS_TRACE_TOPIC at start, for the clients' traces")
    long_polling: bool = setting(True, "yes or no", "let a pull wait for a message; otherwise one second at most")
    max_parked_pulls: int = setting(100_000, "count", "pulls that may wait at once; more are answered at once")
    pull_max_messages: int = setting(1024, "count", "most messages of one answer, whatever a client asks for")
    pull_max_bytes: int = setting(4 * 1024 * 1024, "bytes", "most bytes of one answer, one message at least")
    max_parked_pops: int = setting(100_000, "count", "pops that may wait at once; more are refused")
    limits_popped: bool = setting(
        False, "yes or no", "pops get nothing of a queue while max_popped of its messages are not acknowledged"
    )
    max_popped: int = setting(
        10_000, "count", "messages of one queue that a group may have popped and not acknowledged"
    )
    max_parked_pops_alike: int = setting(1024, "count", "pops of one group and queue that may wait at once")
    revive_queues: int = setting(8, "count", "queues of the topic that keeps what was popped and acknowledged")
    client_timeout_ms: int = setting(120_000, "ms", "a client that sends no heartbeat for so long is forgotten")
    lock_timeout_ms: int = setting(60_000, "ms", "a queue lock that is not renewed for so long is free again")
    offset_save_ms: int = setting(5_000, "ms", "how often consumer offsets are saved")
    delay_save_ms: int = setting(10_000, "ms", "how often the progress of delayed messages is saved")
    timers: bool = setting(True, "yes or no", "deliver messages at any time they name; otherwise they are refused")
    timer_precision_ms: int = setting(
        1000, "ms", "how late such a message may come; 1000, 500, 200 or 100. Another one has the wheel made again"
    )
    timer_max_delay_s: int = setting(
        1_209_600, "s", "how far ahead a message may be put (RocketMQ: 259200); more is refused"
    )
    timer_roll_slots: int = setting(
        172_800,
        "steps of timer_precision_ms",
        "what waits longer is stored again on the way, so that the log may expire",
    )
    timer_file_size: int = setting(
        100 * 1024 * 1024, "bytes", "size of a file of the timer log; that of existing ones stays"
    )
    timer_flush_ms: int = setting(1_000, "ms", "how often wheel and timer log are brought onto the disk")
    timer_slot_limit: int = setting(
        2_147_483_647, "count", "most messages that may wait for the same moment; more are refused"
    )
    compaction: bool = setting(
        True, "yes or no", "keep the newest message of each key of topics with cleanup.policy=COMPACTION"
    )
    compaction_interval_ms: int = setting(900_000, "ms", "how often topics that have grown are compacted")
    compaction_bytes_per_s: int = setting(
        32 * 1024 * 1024,
        "bytes",
        "most that a compaction reads and writes in a second, so that the disk is there for others",
    )
    compaction_max_keys: int = setting(
        1_000_000, "count", "most keys in memory; of more, a compaction reads several times"
    )
    compaction_file_size: int = setting(100 * 1024 * 1024, "bytes", "size of a log file of a compacted topic, about")
    compaction_queue_file_size: int = setting(
        10 * 1024 * 1024, "bytes", "size of a queue file of a compacted topic, about"
    )
    recall: bool = setting(True, "yes or no", "let producers take back messages that wait (RocketMQ: no)")
    notify_members: bool = setting(True, "yes or no", "tell consumers at once when others come or go")
    keep_replies: bool = setting(True, "yes or no", "store the replies of request/reply, too")
    sql_filters: bool = setting(
        True, "yes or no", "filter by SQL92 for consumers that ask for it; otherwise refuse them"
    )
    filter_bits: bool = setting(
        False, "yes or no", "note for each message which groups' SQL92 filters want it, in topics with extended queues"
    )
    filter_bits_error_percent: int = setting(20, "percent", "how many groups may be taken for others by these bits")
    filter_bits_consumers: int = setting(32, "count", "groups with filters on one topic that the bits are meant for")
    filter_keep_ms: int = setting(86_400_000, "ms", "how long the filter of a group is kept that nobody reads with")
    transactions: bool = setting(True, "yes or no", "take transactional messages; otherwise they are refused")
    transaction_timeout_ms: int = setting(
        6_000, "ms", "how long a transaction may be open before its producers are asked how it ended"
    )
    transaction_check_interval_ms: int = setting(
        30_000,
        "ms",
        "how long after the first question the second comes; the pauses then double, up to eight times that",
    )
    transaction_check_max: int = setting(
        15, "count", "questions without an answer, after which a transaction is given up"
    )
    transaction_mark_size: int = setting(4_096, "bytes", "most bytes of one message that says which transactions ended")
    staged_max_bytes: int = setting(
        4 * 1024 * 1024 * 1024, "bytes", "what may be staged and not yet published; more is refused"
    )
    staged_expire_hours: float = setting(24, "hours", "what is staged and not published for so long is deleted")
    published_keep_hours: float = setting(
        720, "hours", "how long after its last batch a job is remembered, and no batch of it is published twice"
    )
    register_interval_ms: int = setting(30_000, "ms", "how often the broker tells the name servers of its topics")

    @classmethod
    def make(cls, values: Mapping[str, object]) -> Self:
        """Settings of these values. Raises SettingsError that names the nearest known setting."""
        check_names(values, cls)
        return cls(**values)  # type: ignore[arg-type]
