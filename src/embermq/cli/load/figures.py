"""What a server says of itself, read from its /metrics before and after a run.

    embermq_send_seconds_total{path,stage}       time, messages and calls of each stage of a send;
    embermq_send_messages_total{path,stage}      embermq_pull_… the same of pulls
    embermq_send_calls_total{path,stage}
    embermq_sync_latency_seconds                 syncs of the disk

Other brokers have none of these; then there is nothing to show.
"""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import re
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from embermq.client.connections import parse_address
from embermq.client.routes import Route
from embermq.errors import ConnectionLost, SettingsError

PORT: Final = 5557  # where EmberMQ and RocketMQ serve them unless told otherwise
TIMEOUT_S: Final = 5.0
MOST_BYTES: Final = 64 * 1024 * 1024

_SYNCS: Final = "embermq_sync_latency_seconds"
_LINE: Final = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_STAGE: Final = re.compile(r"embermq_(\w+)_(seconds|messages|calls)_total")
_TRAFFIC: Final = {"send": "rocketmq_messages_in_total", "pull": "rocketmq_messages_out_total"}


class Stage(NamedTuple):
    """One step on the way of messages through a server."""

    path: str  # engine or plain
    name: str
    messages: int
    calls: int
    seconds: float

    @property
    def microseconds(self) -> float:
        """Of one message."""
        return self.seconds * 1e6 / self.messages if self.messages else 0.0

    @property
    def messages_per_call(self) -> float:
        return self.messages / self.calls if self.calls else 0.0


class Syncs(NamedTuple):
    """How often the disk was synced, and how long that took."""

    calls: int
    seconds: float


class Figures(NamedTuple):
    """What happened at a server while a run lasted."""

    stages: list[Stage]
    syncs: Syncs

    @property
    def engine_share(self) -> float | None:
        """The share of messages that went through the engine to the end; None if there were none."""
        last = [stage for stage in self.stages if stage.name == "answer"] or self.stages
        messages: dict[str, int] = defaultdict(int)
        for stage in last:
            messages[stage.path] = max(messages[stage.path], stage.messages)
        total = sum(messages.values())
        return messages["engine"] / total if total else None


class FiguresSource:
    """The figures of one server, of sends or of pulls."""

    def __init__(self, url: str, kind: str, topic: str, *, is_guess: bool = False) -> None:
        """`kind` is `send` or `pull`. A guess may be another server, so what it says is compared with what was done."""
        if not url.startswith(("http://", "https://")):
            raise SettingsError(f"metrics at {url!r}: an address such as http://127.0.0.1:{PORT}/metrics is expected")
        self.url = url
        self._kind = kind
        self._topic = topic
        self._is_guess = is_guess
        self._before: dict[tuple[str, ...], float] = {}

    async def begin(self) -> None:
        """Remember the figures of now. Raises ConnectionLost."""
        self._before = await self._read()

    async def finish(self, messages: int) -> Figures | None:
        """What happened since the beginning; None if the server has no such figures.

        Raises ConnectionLost, and SettingsError if it took fewer than the run's `messages`, so it is another one.
        """
        after = await self._read()
        traffic = (_TRAFFIC[self._kind],)
        if not after.keys() - {traffic}:
            return None
        grown = {key: value - self._before.get(key, 0.0) for key, value in after.items()}
        if self._is_guess and grown.get(traffic, 0.0) < messages:
            raise SettingsError(f"the figures at {self.url} are those of another server; --metrics names the right one")
        stages: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for (what, *labels), value in grown.items():
            if labels:
                stages[labels[0], labels[1]][what] = value
        syncs = Syncs(round(grown.get((f"{_SYNCS}_count",), 0)), grown.get((f"{_SYNCS}_sum",), 0.0))
        return Figures([_stage(*key, values) for key, values in stages.items() if any(values.values())], syncs)

    async def _read(self) -> dict[tuple[str, ...], float]:
        try:
            text = await asyncio.to_thread(_fetch, self.url)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ConnectionLost(f"no figures at {self.url}: {error}; leave --metrics out, or correct it") from error
        return self._parse(text)

    def _parse(self, text: str) -> dict[tuple[str, ...], float]:
        """The figures that matter: stages by what, path and name, all others by their names."""
        found: dict[tuple[str, ...], float] = defaultdict(float)
        for line in text.splitlines():
            match = _LINE.match(line)
            key = self._key_of(match[1], match[2] or "") if match else None
            if match and key:
                found[key] += float(match[3])
        return found

    def _key_of(self, name: str, label_text: str) -> tuple[str, ...] | None:
        if name in (f"{_SYNCS}_count", f"{_SYNCS}_sum"):
            return (name,)
        stage = _STAGE.fullmatch(name)
        labels = dict(_LABEL.findall(label_text))
        if stage is not None and stage[1] == self._kind:
            return stage[2], labels.get("path", ""), labels.get("stage", "")
        if name == _TRAFFIC[self._kind] and labels.get("topic") == self._topic:
            return (name,)
        return None


def _stage(path: str, name: str, values: Mapping[str, float]) -> Stage:
    return Stage(
        path, name, round(values.get("messages", 0)), round(values.get("calls", 0)), values.get("seconds", 0.0)
    )


def _fetch(url: str) -> str:
    # A proxy is for the world outside; servers are asked themselves.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=TIMEOUT_S) as answer:
        return str(answer.read(MOST_BYTES), "utf-8", "replace")


def usual_url(route: Route) -> str | None:
    """Where the one broker of a topic has its figures, if it is on this machine."""
    addresses = set(route.masters.values())
    if len(addresses) != 1:
        return None
    host = parse_address(addresses.pop()).address
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    return f"http://{f'[{host}]' if ':' in host else host}:{PORT}/metrics" if is_here else None


async def find_figures(url: str | None, route: Route, *, kind: str, topic: str) -> FiguresSource | None:
    """The figures at `url`, which must be there; without it those at the usual place, if somebody is there."""
    place = url if url is not None else usual_url(route)
    if place is None:
        return None
    source = FiguresSource(place, kind, topic, is_guess=url is None)
    try:
        await source.begin()
    except ConnectionLost:
        if url is not None:
            raise
        return None  # nobody asked for them
    return source
