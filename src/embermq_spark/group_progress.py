"""Lets a consumer group follow a stream (`commitGroup`), so that dashboards see how far it is.

A stream's reader is asked for the next batch with the offsets up to which all batches are done and in Spark's
checkpoint. Those are what the group is told: never too far, after the last batch too, and in every session, because no
listener has to be added to it. What Spark calls `commit` comes one batch late, and never for the last one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from embermq.client.client import make_credentials, make_tls_context
from embermq.client.connections import Connections, parse_addresses
from embermq.client.offsets import Offsets
from embermq.client.routes import Routes
from embermq.clock import SystemClock
from embermq.errors import EmberError
from embermq.format.wire_json import BrokerQueue
from embermq_spark.options import ReadOptions
from embermq_spark.stream_offsets import QueueKey

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 2.0  # of one call
PAUSE_S: Final = 10.0  # after a failure: dashboards must not hold up the stream


class GroupProgress:
    """Commits the progress of a stream to a group; of a stream without one, nothing."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._clock = SystemClock()
        self._committed: dict[QueueKey, int] = {}
        self._not_before_s = 0.0

    def commit(self, offsets: Mapping[QueueKey, int]) -> None:
        """Tell brokers of what has changed. A failure is logged, and made up for by a later call."""
        group = self._options.commit_group
        changed = {key: offset for key, offset in offsets.items() if self._committed.get(key) != offset}
        if group is None or not changed or self._clock.monotonic() < self._not_before_s:
            return
        try:
            asyncio.run(self._commit(group, changed))
        except (EmberError, OSError) as error:
            self._not_before_s = self._clock.monotonic() + PAUSE_S
            log.warning("progress not committed group=%s reason=%s", group, error)

    async def _commit(self, group: str, changed: Mapping[QueueKey, int]) -> None:
        options = self._options
        assert options.namesrv is not None
        credentials = make_credentials(options.access_key, options.secret_key)
        connections = Connections(credentials=credentials, tls=make_tls_context(options.tls))
        try:
            routes = Routes(connections, parse_addresses(options.namesrv), timeout_s=TIMEOUT_S)
            commits = Offsets(connections, timeout_s=TIMEOUT_S)
            for key, offset in changed.items():
                address = (await routes.read(key.topic)).address_of(key.broker)
                queue = BrokerQueue(key.broker, key.topic, key.queue)
                await commits.commit(address, queue, group=group, offset=offset)
                self._committed[key] = offset
        finally:
            await connections.close()
