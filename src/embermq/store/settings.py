"""StoreSettings: everything about a store that can be set.

Each setting carries its unit and what changing it does; docs/settings.md is made from
that. A size of None means "as found in the directory, else RocketMQ's default", so a
directory made by RocketMQ with any sizes opens as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Self

from embermq.errors import SettingsError
from embermq.format.batch_entry import BATCH_ENTRY_SIZE
from embermq.model.delay import parse_delay_levels
from embermq.model.message import Host
from embermq.model.setting import check_names, setting

MIB = 1024 * 1024
GIB = 1024 * MIB
MIN_LOG_FILE_SIZE = 4096
ROCKETMQ_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
LARGEST_PORT = 65_535
LARGEST_PROPERTIES = 32_767  # the size is kept in a signed 16-bit field


# What can be changed while a store is open.
CHANGEABLE = frozenset(
    {
        *("max_message_size", "max_properties_size", "max_keys", "busy_wait_ms"),
        *("retention_hours", "delete_when", "delete_batch", "delete_pause_ms", "hung_file_timeout_ms", "max_bytes"),
        "wait_for_archive",
        *("reserve_bytes", "disk_max_ratio", "disk_clean_ratio", "disk_full_ratio"),
    }
)


class Durability(StrEnum):
    """What holds when a put returns."""

    SYNC = "sync"  # on disk
    ASYNC = "async"  # in the page cache: survives the process, not the machine
    POOLED = "pooled"  # in this process: survives neither, until the next commit and flush


class QueueForm(StrEnum):
    """What queues are kept in."""

    FILES = "files"
    ROCKSDB = "rocksdb"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How one store works; checked when it is made. `Store.change` replaces it by another."""

    durability: Durability = setting(
        Durability.SYNC,
        "sync, async or pooled",
        "what holds when a put returns: on disk, in the page cache, in this process",
    )
    log_paths: tuple[str, ...] = setting(
        (), "directories", "where log files go, taking turns; empty: commitlog/ in the store's directory"
    )
    read_only_log_paths: tuple[str, ...] = setting(
        (), "directories", "further log files that are read, and to which none is added"
    )
    log_file_size: int | None = setting(None, "bytes", "size of one log file; as found, else 1 GiB")
    queue_file_size: int | None = setting(
        None, "bytes", "size of one consume-queue file, rounded up to whole entries; as found, else 6 000 000"
    )
    batch_queue_file_size: int | None = setting(
        None, "bytes", "size of one file of a BatchCQ queue; as found, else 13 800 000"
    )
    extended_queue_file_size: int | None = setting(
        None, "bytes", "size of one file of extended queue entries; as found, else 48 MiB"
    )
    index_slots: int | None = setting(None, "count", "hash slots of one index file; as found, else 5 000 000")
    index_entries: int | None = setting(None, "count", "entries of one index file; as found, else 20 000 000")
    index_enabled: bool = setting(True, "yes or no", "without it, messages cannot be found by key")
    extended_queues: bool = setting(
        False, "yes or no", "keep tags, time and filter bits of each message in consumequeue_ext/"
    )
    queue_store: QueueForm = setting(
        QueueForm.FILES,
        "files or rocksdb",
        "what queues are kept in; a RocksDB, which needs the extra rocksdb, costs no file for each: for a million",
    )
    max_open_queue_files: int | None = setting(
        None,
        "files",
        "files of queues that are open at once, those used least are closed; as many as the system's limits allow",
    )
    light_queues: bool = setting(
        False, "yes or no", "file a message with INNER_MULTI_DISPATCH under each %LMQ% queue it names, too"
    )
    property_crc: bool = setting(False, "yes or no", "20 bytes more per record, and damage anywhere in it is found")
    verify_property_crc: bool = setting(
        False, "yes or no", "recovery cuts at a record whose property checksum is missing or wrong"
    )

    sync_timeout_ms: int = setting(5_000, "ms", "how long a put in sync mode waits for the disk before FlushTimeout")
    flush_interval_ms: int = setting(500, "ms", "async, pooled: the disk is at most this far behind, if pages wait")
    flush_least_pages: int = setting(
        4, "pages of 4 KiB", "async, pooled: fewer waiting pages are left for the thorough flush"
    )
    flush_thorough_interval_ms: int = setting(10_000, "ms", "async, pooled: everything is flushed this often")
    commit_interval_ms: int = setting(200, "ms", "pooled: how often write buffers go to their files")
    commit_least_pages: int = setting(4, "pages of 4 KiB", "pooled: fewer waiting pages stay in the write buffer")
    commit_thorough_interval_ms: int = setting(200, "ms", "pooled: everything is committed this often")
    pool_buffers: int = setting(5, "count", "pooled: write buffers, each as large as a log file")
    checkpoint_interval_ms: int = setting(
        30_000, "ms", "queues, index and checkpoint are flushed this often; what came later is read again after a crash"
    )
    checkpoint_bytes: int = setting(1024 * MIB, "bytes", "as much log at most before the next checkpoint")
    max_unflushed_bytes: int = setting(
        256 * MIB,
        "bytes",
        "what may wait for the disk; a quarter of it is flushed at once, beyond all of it puts slow down, and are "
        "refused after busy_wait_ms",
    )
    busy_wait_ms: int = setting(1_000, "ms", "how long a put waits for a slow disk before StoreBusy")
    prepare_files: bool = setting(
        True, "yes or no", "make the next two log files ahead; without it a put pays for a new file"
    )
    lock_pages: bool = setting(False, "yes or no", "keep the current log file's pages in memory (mlock)")
    hot_bytes: int | None = setting(
        None,
        "bytes",
        "how much of the log's end may stay in memory at most; what is read from files further behind does not stay "
        "there, so that reading old messages does not slow down others",
    )

    recent_bytes: int = setting(
        128 * MIB,
        "bytes",
        "how much of the log's end stays in memory however fast the log grows; older pages are used again for what "
        "comes, because new ones cost more than all the rest",
    )
    recent_bytes_per_s: int = setting(
        16 * MIB,
        "bytes",
        "by how much that may become more every second, up to hot_bytes: a log that grows slower stays in memory as "
        "far as that. Where consumers read, it waits for them",
    )

    max_message_size: int = setting(4 * MIB, "bytes", "largest body")
    max_properties_size: int = setting(LARGEST_PROPERTIES, "bytes", "largest properties, with tags and keys")
    max_keys: int = setting(64, "count", "most keys of one message")
    default_queues: int = setting(4, "count", "queues of a topic that is made by its first message")
    auto_create_topics: bool = setting(True, "yes or no", "a put to an unknown topic makes it; otherwise TopicNotFound")
    store_host: str = setting(
        "127.0.0.1:10911", "address:port", "the broker address written into records and message ids"
    )
    delay_levels: str = setting(ROCKETMQ_DELAY_LEVELS, "list of times", "what the delay levels 1, 2, … stand for")

    retention_hours: float = setting(72, "hours", "log files whose newest message is older may be deleted")
    delete_when: str = setting(
        "04", "hours of the day, joined by ;", "expired files are deleted in these hours of local time"
    )
    clean_interval_ms: int = setting(10_000, "ms", "how often expiry is looked at")
    delete_batch: int = setting(10, "files", "log files deleted in one round")
    delete_pause_ms: int = setting(100, "ms", "pause between two deletions, so that the disk keeps up")
    hung_file_timeout_ms: int = setting(
        120_000, "ms", "a deleted file that a reader still holds is removed by force after this"
    )
    max_bytes: int | None = setting(
        None, "bytes", "largest total of log files; the oldest go first, whatever their age"
    )
    wait_for_archive: bool = setting(
        False,
        "yes or no",
        "delete only what `ember archive run` has archived; without an archive nothing goes, however full the disk",
    )
    reserve_bytes: int = setting(
        64 * MIB, "bytes", "free space that must stay; below it puts are refused with DiskFull"
    )
    disk_max_ratio: float = setting(0.75, "share of the disk", "above it expired files are deleted at any hour")
    disk_clean_ratio: float = setting(
        1.0, "share of the disk", "above it the oldest files are deleted, whatever their age (RocketMQ: 0.85)"
    )
    disk_full_ratio: float = setting(
        1.0, "share of the disk", "above it puts are refused with DiskFull (RocketMQ: 0.90)"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "durability", self._durability())
        object.__setattr__(self, "queue_store", self._queue_store())
        for name in ("log_file_size", "queue_file_size", "batch_queue_file_size", "extended_queue_file_size"):
            self._at_least(name, MIN_LOG_FILE_SIZE if name == "log_file_size" else 20)
        for name in (
            "index_slots",
            "sync_timeout_ms",
            "flush_interval_ms",
            "commit_interval_ms",
            "pool_buffers",
            "delete_batch",
        ):
            self._at_least(name, 1)
        for name in ("max_message_size", "max_keys", "default_queues", "max_unflushed_bytes", "checkpoint_interval_ms"):
            self._at_least(name, 1)
        size = self.batch_queue_file_size
        if size is not None and size % BATCH_ENTRY_SIZE:
            raise SettingsError(f"batch_queue_file_size is {size}; a multiple of {BATCH_ENTRY_SIZE} is wanted")
        self._at_least("index_entries", 2)  # entry 0 is never used
        self._at_least("max_open_queue_files", 1)
        self._at_least("reserve_bytes", 0)
        if self.max_properties_size > LARGEST_PROPERTIES:
            raise SettingsError(
                f"max_properties_size is {self.max_properties_size}; a record holds at most {LARGEST_PROPERTIES}"
            )
        for name in ("disk_max_ratio", "disk_clean_ratio", "disk_full_ratio"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise SettingsError(f"{name} is {value}; a share of the disk lies above 0 and is at most 1")
        self.delete_hours()
        self.host()
        parse_delay_levels(self.delay_levels)

    @classmethod
    def make(cls, values: Mapping[str, object]) -> Self:
        """Settings from names and values; an unknown name is an error that tells the nearest known one."""
        check_names(values, cls)
        return cls(**values)  # type: ignore[arg-type]

    def delete_hours(self) -> frozenset[int]:
        """The hours of the day in which expired files go."""
        try:
            hours = frozenset(int(hour) for hour in self.delete_when.split(";") if hour.strip())
        except ValueError as error:
            raise SettingsError(
                f"delete_when is {self.delete_when!r}; hours joined by ';' are wanted, such as 04;16"
            ) from error
        if not hours <= frozenset(range(24)):
            raise SettingsError(f"delete_when is {self.delete_when!r}; the hours of a day are 00 to 23")
        return hours

    def host(self) -> Host:
        """`store_host` in its parts; an IPv6 address stands in brackets."""
        address, _, port = self.store_host.rpartition(":")
        try:
            ip_address(address.strip("[]"))
            if int(port) > LARGEST_PORT:
                raise ValueError(f"there is no port {port}")
        except ValueError as error:
            wanted = "address:port is wanted, such as 127.0.0.1:10911 or [::1]:10911"
            raise SettingsError(f"store_host is {self.store_host!r}; {wanted} ({error})") from error
        return Host(address.strip("[]"), int(port))

    def _durability(self) -> Durability:
        try:
            return Durability(self.durability)
        except ValueError as error:
            raise SettingsError(f"durability is {self.durability!r}; sync, async or pooled is wanted") from error

    def _queue_store(self) -> QueueForm:
        try:
            form = QueueForm(self.queue_store)
        except ValueError as error:
            raise SettingsError(f"queue_store is {self.queue_store!r}; files or rocksdb is wanted") from error
        if form is QueueForm.ROCKSDB and self.extended_queues:
            raise SettingsError("queues in a RocksDB are never extended; leave out extended_queues, or queue_store")
        return form

    def _at_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if value is not None and value < least:
            raise SettingsError(f"{name} is {value}; at least {least} is wanted")
