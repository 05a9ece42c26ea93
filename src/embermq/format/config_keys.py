"""RocketMQ's names for settings, and which of ours each one is.

    brokerName=broker-a        →  broker.name = "broker-a"
    fileReservedTime=48        →  store.retention_hours = 48
    flushDiskType=SYNC_FLUSH   →  store.durability = "sync"

Read from its properties files and from requests, written into the answers that its tools print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Final, NamedTuple

from embermq.errors import SettingsError
from embermq.format.unused_keys import UNUSED_OF_BROKER


class Part(StrEnum):
    """Whose setting it is."""

    BROKER = "broker"
    STORE = "store"
    SERVER = "server"
    ACCESS = "access"


class Form(NamedTuple):
    """How a value is read and written."""

    read: Callable[[str], object]  # raises ValueError
    show: Callable[[object], str]
    wanted: str


class Key(NamedTuple):
    """One of our settings."""

    part: Part
    name: str
    form: Form


def _read_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _show_number(value: object) -> str:
    assert isinstance(value, int | float)
    return f"{value:g}" if isinstance(value, float) else str(int(value))


def _show_share(value: object) -> str:
    assert isinstance(value, int | float)
    return str(round(value * 100))


def _split(text: str, *separators: str) -> tuple[str, ...]:
    for separator in separators:
        text = text.replace(separator, ",")
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _join(separator: str) -> Callable[[object], str]:
    def show(value: object) -> str:
        assert isinstance(value, tuple)
        return separator.join(map(str, value))

    return show


def _read_store_type(text: str) -> object:
    if text not in _STORE_TYPES:
        raise ValueError(text)
    return _STORE_TYPES[text]


def _show_store_type(value: object) -> str:
    return next(name for name, ours in _STORE_TYPES.items() if ours == value)


_STORE_TYPES: Final = {"default": "files", "defaultRocksDB": "rocksdb"}
TEXT: Final = Form(str, str, "text")
INTEGER: Final = Form(int, _show_number, "a whole number")
HOURS: Final = Form(lambda text: float(text) if "." in text else int(text), _show_number, "a number of hours")
BOOLEAN: Final = Form(_read_boolean, lambda value: "true" if value else "false", "true or false")
NEGATED: Final = Form(lambda text: not _read_boolean(text), lambda value: "false" if value else "true", "true or false")
PERCENT: Final = Form(lambda text: int(text) / 100, _show_share, "a whole number of percent")
PATHS: Final = Form(_split, _join(","), "directories joined by ,")
ADDRESSES: Final = Form(lambda text: _split(text, ";"), _join(";"), "address:port, joined by ;")
STORE_TYPE: Final = Form(_read_store_type, _show_store_type, "default or defaultRocksDB")
CODES: Final = Form(lambda text: tuple(map(int, _split(text))), _join(","), "request codes joined by ,")


def _keys(part: Part, table: Mapping[str, tuple[str, Form]]) -> dict[str, Key]:
    return {key: Key(part, name, form) for key, (name, form) in table.items()}


KEYS: Final[Mapping[str, Key]] = {
    **_keys(
        Part.BROKER,
        {
            "brokerClusterName": ("cluster", TEXT),
            "brokerName": ("name", TEXT),
            "brokerId": ("broker_id", INTEGER),
            "regionId": ("region", TEXT),
            "brokerPermission": ("permission", INTEGER),
            "autoCreateTopicEnable": ("auto_create_topics", BOOLEAN),
            "autoCreateSubscriptionGroup": ("auto_create_groups", BOOLEAN),
            "defaultTopicQueueNums": ("template_queues", INTEGER),
            "traceTopicEnable": ("trace_topic", BOOLEAN),
            "longPollingEnable": ("long_polling", BOOLEAN),
            "maxTransferCountOnMessageInMemory": ("pull_max_messages", INTEGER),
            "maxTransferBytesOnMessageInMemory": ("pull_max_bytes", INTEGER),
            "maxPopPollingSize": ("max_parked_pops", INTEGER),
            "popPollingSize": ("max_parked_pops_alike", INTEGER),
            "enablePopMessageThreshold": ("limits_popped", BOOLEAN),
            "popInflightMessageThreshold": ("max_popped", INTEGER),
            "reviveQueueNum": ("revive_queues", INTEGER),
            "channelExpiredTimeout": ("client_timeout_ms", INTEGER),
            "flushConsumerOffsetInterval": ("offset_save_ms", INTEGER),
            "flushDelayOffsetInterval": ("delay_save_ms", INTEGER),
            "timerWheelEnable": ("timers", BOOLEAN),
            "timerPrecisionMs": ("timer_precision_ms", INTEGER),
            "timerMaxDelaySec": ("timer_max_delay_s", INTEGER),
            "timerRollWindowSlot": ("timer_roll_slots", INTEGER),
            "mappedFileSizeTimerLog": ("timer_file_size", INTEGER),
            "timerFlushIntervalMs": ("timer_flush_ms", INTEGER),
            "timerCongestNumEachSlot": ("timer_slot_limit", INTEGER),
            "enableCompaction": ("compaction", BOOLEAN),
            "compactionScheduleInternal": ("compaction_interval_ms", INTEGER),
            "compactionMappedFileSize": ("compaction_file_size", INTEGER),
            "compactionCqMappedFileSize": ("compaction_queue_file_size", INTEGER),
            "recallMessageEnable": ("recall", BOOLEAN),
            "notifyConsumerIdsChangedEnable": ("notify_members", BOOLEAN),
            "storeReplyMessageEnable": ("keep_replies", BOOLEAN),
            "enablePropertyFilter": ("sql_filters", BOOLEAN),
            "enableCalcFilterBitMap": ("filter_bits", BOOLEAN),
            "maxErrorRateOfBloomFilter": ("filter_bits_error_percent", INTEGER),
            "expectConsumerNumUseFilter": ("filter_bits_consumers", INTEGER),
            "filterDataCleanTimeSpan": ("filter_keep_ms", INTEGER),
            "rejectTransactionMessage": ("transactions", NEGATED),
            "transactionTimeOut": ("transaction_timeout_ms", INTEGER),
            "transactionCheckInterval": ("transaction_check_interval_ms", INTEGER),
            "transactionCheckMax": ("transaction_check_max", INTEGER),
            "transactionOpMsgMaxSize": ("transaction_mark_size", INTEGER),
            "registerNameServerPeriod": ("register_interval_ms", INTEGER),
        },
    ),
    **_keys(
        Part.STORE,
        {
            "storePathCommitLog": ("log_paths", PATHS),
            "readOnlyCommitLogStorePaths": ("read_only_log_paths", PATHS),
            "mappedFileSizeCommitLog": ("log_file_size", INTEGER),
            "storeType": ("queue_store", STORE_TYPE),
            "mappedFileSizeConsumeQueue": ("queue_file_size", INTEGER),
            "mapperFileSizeBatchConsumeQueue": ("batch_queue_file_size", INTEGER),
            "mappedFileSizeConsumeQueueExt": ("extended_queue_file_size", INTEGER),
            "maxHashSlotNum": ("index_slots", INTEGER),
            "maxIndexNum": ("index_entries", INTEGER),
            "messageIndexEnable": ("index_enabled", BOOLEAN),
            "enableConsumeQueueExt": ("extended_queues", BOOLEAN),
            "enabledAppendPropCRC": ("property_crc", BOOLEAN),
            "forceVerifyPropCRC": ("verify_property_crc", BOOLEAN),
            "syncFlushTimeout": ("sync_timeout_ms", INTEGER),
            "flushIntervalCommitLog": ("flush_interval_ms", INTEGER),
            "flushCommitLogLeastPages": ("flush_least_pages", INTEGER),
            "flushCommitLogThoroughInterval": ("flush_thorough_interval_ms", INTEGER),
            "commitIntervalCommitLog": ("commit_interval_ms", INTEGER),
            "commitCommitLogLeastPages": ("commit_least_pages", INTEGER),
            "commitCommitLogThoroughInterval": ("commit_thorough_interval_ms", INTEGER),
            "transientStorePoolSize": ("pool_buffers", INTEGER),
            "waitTimeMillsInSendQueue": ("busy_wait_ms", INTEGER),
            "maxMessageSize": ("max_message_size", INTEGER),
            "messageDelayLevel": ("delay_levels", TEXT),
            "fileReservedTime": ("retention_hours", HOURS),
            "deleteWhen": ("delete_when", TEXT),
            "cleanResourceInterval": ("clean_interval_ms", INTEGER),
            "deleteFileBatchMax": ("delete_batch", INTEGER),
            "deleteCommitLogFilesInterval": ("delete_pause_ms", INTEGER),
            "destroyMapedFileIntervalForcibly": ("hung_file_timeout_ms", INTEGER),
            "diskMaxUsedSpaceRatio": ("disk_max_ratio", PERCENT),
            "diskSpaceCleanForciblyRatio": ("disk_clean_ratio", PERCENT),
            "diskSpaceWarningLevelRatio": ("disk_full_ratio", PERCENT),
        },
    ),
    **_keys(
        Part.SERVER,
        {
            "bindAddress": ("listen", TEXT),
            "listenPort": ("port", INTEGER),
            "brokerIP1": ("advertise", TEXT),
            "namesrvAddr": ("name_servers", ADDRESSES),
            "storePathRootDir": ("store_path", TEXT),
            "serverChannelMaxIdleTimeSeconds": ("idle_timeout_s", INTEGER),
            "metricsPromExporterHost": ("http_listen", TEXT),
            "metricsPromExporterPort": ("http_port", INTEGER),
        },
    ),
    **_keys(
        Part.ACCESS,
        {
            "authenticationEnabled": ("authentication", BOOLEAN),
            "authorizationEnabled": ("authorization", BOOLEAN),
            "authenticationWhitelist": ("open_requests", CODES),
            "authorizationWhitelist": ("unruled_requests", CODES),
        },
    ),
}

# Each of these says half of something of ours.
FLUSH_TYPE: Final = "flushDiskType"
POOL: Final = "transientStorePoolEnable"
LIGHT_QUEUES: Final = ("enableLmq", "enableMultiDispatch")
COMBINED: Final = frozenset({FLUSH_TYPE, POOL, *LIGHT_QUEUES})


def known_of_broker() -> list[str]:
    """Every name that a broker's file may hold without being wrong."""
    return sorted({*KEYS, *COMBINED, *UNUSED_OF_BROKER})


def no_such_key(key: str, known: Iterable[str]) -> SettingsError:
    """The error for a name that nobody knows: it tells the nearest one."""
    near = get_close_matches(key[:200], list(known), 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return SettingsError(f"no setting {key[:200]!r}{hint}")


def read_value(key: str, text: str) -> object:
    """The value of one of KEYS. Raises SettingsError."""
    form = KEYS[key].form
    try:
        return form.read(text.strip())
    except ValueError as error:
        raise SettingsError(f"{key} is {text[:200]!r}; {form.wanted} is wanted") from error


def read_combined(values: Mapping[str, str]) -> dict[str, object]:
    """The store settings that two names say together, as far as `values` say anything. Raises SettingsError."""
    settings: dict[str, object] = {}
    if FLUSH_TYPE in values or POOL in values:
        kind = values.get(FLUSH_TYPE, "ASYNC_FLUSH")
        if kind not in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            raise SettingsError(f"{FLUSH_TYPE} is {kind[:200]!r}; SYNC_FLUSH or ASYNC_FLUSH is wanted")
        with_pool = _boolean(values, POOL)
        settings["durability"] = "sync" if kind == "SYNC_FLUSH" else "pooled" if with_pool else "async"
    if any(key in values for key in LIGHT_QUEUES):
        settings["light_queues"] = all([_boolean(values, key) for key in LIGHT_QUEUES])
    return settings


def show_settings(part: Part, settings: object) -> dict[str, str]:
    """The settings of one part under RocketMQ's names; those that are left open are not among them."""
    values = {key: (form, getattr(settings, name)) for key, (owner, name, form) in KEYS.items() if owner is part}
    return {key: form.show(value) for key, (form, value) in values.items() if value is not None and value != ()}


def show_combined(*, durability: str, light_queues: bool) -> dict[str, str]:
    """The names that say half of something."""
    light = BOOLEAN.show(light_queues)
    return {
        FLUSH_TYPE: "SYNC_FLUSH" if durability == "sync" else "ASYNC_FLUSH",
        POOL: BOOLEAN.show(durability == "pooled"),
        **dict.fromkeys(LIGHT_QUEUES, light),
    }


def _boolean(values: Mapping[str, str], key: str) -> bool:
    try:
        return _read_boolean(values.get(key, "false").strip())
    except ValueError as error:
        raise SettingsError(f"{key} is {values[key][:200]!r}; {BOOLEAN.wanted} is wanted") from error
