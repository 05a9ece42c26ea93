"""Where a topic is served: what a name server tells its clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from embermq.model.flags import Permission

MASTER_ID: Final = 0  # of the broker that takes messages; its copies have higher ones


@dataclass(frozen=True, slots=True)
class RoutedQueues:
    """The queues of one topic on one broker."""

    broker: str
    read_queues: int
    write_queues: int
    permission: int
    sys_flag: int = 0

    @property
    def is_writable(self) -> bool:
        return bool(self.permission & Permission.WRITE)

    @property
    def is_readable(self) -> bool:
        return bool(self.permission & Permission.READ)


@dataclass(frozen=True, slots=True)
class RoutedBroker:
    """A broker: one master and its copies share a name, each has an id and an address `host:port`."""

    cluster: str
    name: str
    addresses: Mapping[int, str]
    acting_master: bool = False  # a copy may stand in for a lost master
    zone: str | None = None

    @property
    def master(self) -> str | None:
        """The address of the master, None if there is none at the moment."""
        return self.addresses.get(MASTER_ID)


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """All queues of a topic, and the brokers that have them."""

    queues: tuple[RoutedQueues, ...]
    brokers: tuple[RoutedBroker, ...]
    order: str | None = None  # `broker:queues;…`, which queues an ordered topic has even when a broker is away
    filter_servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by broker address
    mappings: Mapping[str, object] = field(default_factory=dict)  # of a static topic's queues, by broker; kept as is


@dataclass(frozen=True, slots=True)
class Clusters:
    """Every broker by its name, and the names of each cluster's brokers."""

    brokers: Mapping[str, RoutedBroker]
    clusters: Mapping[str, tuple[str, ...]]
