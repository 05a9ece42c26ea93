"""The options of the format `rocketmq`, parsed once into a frozen dataclass: one for reading, one for writing.

An option is named as in Spark, `startingOffsets`, and kept as the field `starting_offsets`. Spark hands names over
without their capitals, so those do not matter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Self, TypeVar

from embermq.errors import IllegalFilter, SettingsError
from embermq.filters import parse_filter
from embermq_spark.option_values import (
    Assigned,
    Offsets,
    parse_assigned,
    parse_count,
    parse_duration,
    parse_names,
    parse_offsets,
    parse_paths,
    parse_pattern,
    parse_size,
    parse_storage,
    parse_text,
    parse_time,
    parse_truth,
)

T = TypeVar("T")

# What Spark itself puts among the options of a stream.
SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
OF_TABLES: Final = "provider"  # what it puts there for a table, with others, and none that its user gave


def option(default: T, parse: Callable[[str], T], *, is_secret: bool = False) -> T:
    """A field that is an option; what it means is told by docs/spark.md."""
    made: Any = dataclasses.field(default=default, metadata={"parse": parse}, repr=not is_secret)
    found: T = made  # a dataclass turns the field into its default
    return found


def name_of(field: str) -> str:
    """`startingOffsets` for the field `starting_offsets`."""
    first, *rest = field.split("_")
    return first + "".join(part.capitalize() for part in rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """How to reach a cluster, which reading and writing have in common."""

    namesrv: str | None = option(None, parse_text)
    access_key: str | None = option(None, parse_text)
    secret_key: str | None = option(None, parse_text, is_secret=True)
    tls: bool = option(False, parse_truth)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Options from what Spark hands over. Raises SettingsError, which names the option and what is wanted."""
        fields = {name_of(field.name).lower(): field for field in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        if OF_TABLES in map(str.lower, given):
            raise SettingsError(
                "a table cannot be made USING rocketmq: Spark gives a table's options to no Python source; "
                "use CREATE TEMPORARY VIEW … USING rocketmq OPTIONS (…)"
            )
        for name, text in given.items():
            if name.lower() in SPARKS_OWN:
                continue
            field = fields.get(name.lower())
            if field is None:
                raise SettingsError(cls._unknown(name))
            try:
                values[field.name] = field.metadata["parse"](text)
            except ValueError as error:
                shown = "" if not field.repr else f" is {text[:200]!r}"
                raise SettingsError(f"option {name_of(field.name)}{shown}: {error}") from None
        made = cls(**values)
        made.check()
        return made

    @classmethod
    def names(cls) -> list[str]:
        """What can be set."""
        return [name_of(field.name) for field in dataclasses.fields(cls)]

    def check(self) -> None:
        """Raise SettingsError for options that do not go together."""
        if (self.access_key is None) != (self.secret_key is None):
            raise SettingsError("options accessKey and secretKey go together; give both or none")

    @classmethod
    def _unknown(cls, name: str) -> str:
        known = {one.lower(): one for one in cls.names()}
        near = get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(sorted(known.values()))}"
        return f"no option {name[:200]!r} when {cls.doing()}; {hint}"

    @classmethod
    def doing(cls) -> str:
        """What these options are for, in words."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(_Options):
    """What to read and how, of batches and streams."""

    path: str | None = option(None, parse_text)
    paths: tuple[str, ...] = option((), parse_paths)  # of `load([a, b])`
    storage_options: str | None = option(None, parse_storage, is_secret=True)  # for the file system of the stores
    broker_name: tuple[str, ...] = option((), parse_names)  # of the stores, in their order
    subscribe: tuple[str, ...] = option((), parse_names)
    subscribe_pattern: str | None = option(None, parse_pattern)
    assign: Assigned | None = option(None, parse_assigned)
    starting_offsets: Offsets | None = option(None, parse_offsets)
    ending_offsets: Offsets | None = option(None, parse_offsets)
    starting_timestamp: int | None = option(None, parse_time)
    ending_timestamp: int | None = option(None, parse_time)
    group: str | None = option(None, parse_text)
    filter_expression: str | None = option(None, parse_text)
    keys: tuple[str, ...] = option((), parse_names)  # messages with one of them
    uniq_keys: tuple[str, ...] = option((), parse_names)
    push_filters: bool = option(False, parse_truth)  # see pushdown.py
    columns: tuple[str, ...] = option((), parse_names)
    include_properties: bool = option(False, parse_truth)
    include_system_topics: bool = option(False, parse_truth)
    decode_body: bool = option(True, parse_truth)
    split_size: int | None = option(None, parse_size)
    min_partitions: int | None = option(None, parse_count)
    max_offsets_per_trigger: int | None = option(None, parse_count)
    max_bytes_per_trigger: int | None = option(None, parse_size)
    min_offsets_per_trigger: int | None = option(None, parse_count)
    max_trigger_delay: int | None = option(None, parse_duration)
    fail_on_data_loss: bool = option(True, parse_truth)
    commit_group: str | None = option(None, parse_text)
    timeout: int = option(30_000, parse_duration)  # how long a broker may be away

    @classmethod
    def doing(cls) -> str:
        return "reading"

    @property
    def all_paths(self) -> tuple[str, ...]:
        """The store directories, however they were given."""
        return self.paths or ((self.path,) if self.path else ())

    def check(self) -> None:
        _Options.check(self)
        self._check_place()
        chosen = [name for name in ("subscribe", "subscribe_pattern", "assign") if getattr(self, name)]
        if len(chosen) > 1:
            raise SettingsError(f"options {' and '.join(map(name_of, chosen))} say the same thing; give one of them")
        self._check_limits()
        if self.filter_expression is not None:
            try:
                parse_filter(self.filter_expression)
            except IllegalFilter as error:
                raise SettingsError(f"option filterExpression is {self.filter_expression[:200]!r}: {error}") from error

    def _check_place(self) -> None:
        """What goes with stores, and what with clusters."""
        if bool(self.all_paths) == bool(self.namesrv) and not (self.all_paths and self.commit_group):
            raise SettingsError(
                "options path and namesrv: one of them is wanted, path for a store directory, namesrv for a cluster"
            )
        if self.commit_group and not self.namesrv:
            raise SettingsError(
                "option commitGroup: only a running broker changes offsets of groups; give namesrv, too"
            )
        if self.broker_name and not self.all_paths:
            raise SettingsError("option brokerName names stores of path; brokers of a cluster have their names already")
        if self.storage_options and not all("://" in path for path in self.all_paths):
            raise SettingsError(
                "option storageOptions is for addresses such as s3://bucket/store; local paths have none"
            )
        if not self.namesrv and (self.access_key or self.tls):
            raise SettingsError("options accessKey, secretKey and tls are for namesrv; nobody asks for them at a path")

    def _check_limits(self) -> None:
        """Where reading begins and ends."""
        for kind in ("starting", "ending"):
            if getattr(self, f"{kind}_offsets") is not None and getattr(self, f"{kind}_timestamp") is not None:
                raise SettingsError(f"options {kind}Offsets and {kind}Timestamp say the same thing; give one of them")
        begin, end = self.starting_timestamp, self.ending_timestamp
        if begin is not None and end is not None and begin > end:
            raise SettingsError(
                f"option startingTimestamp is {begin} ms, behind endingTimestamp, {end} ms: nothing lies between"
            )
        from_group = "group" in (self.starting_offsets, self.ending_offsets)
        if from_group and self.group is None:
            raise SettingsError("offsets of a group are asked for; option group says of which one")
        if self.group and not self.namesrv and not from_group:
            raise SettingsError(
                f"option group is {self.group[:200]!r}, but no offsets of it are asked for; "
                "startingOffsets=group begins where the group is"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(_Options):
    """Where to write and how, of batches and streams."""

    topic: str | None = option(None, parse_text)
    timeout: int = option(120_000, parse_duration)

    @classmethod
    def doing(cls) -> str:
        return "writing"

    def check(self) -> None:
        _Options.check(self)
        if self.namesrv is None:
            raise SettingsError("option namesrv is missing; messages are written to a cluster, such as 127.0.0.1:9876")
