"""A stream of queues: of topics by name or pattern, or of assigned queues.

A queue that is found while the stream runs enters with the offset of its first message, and is read from the next batch
on. So every batch has all its limits in Spark's checkpoint, and is the same when it is read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from embermq.errors import DataLoss
from embermq.scan.store_state import StoreState, everything
from embermq.scan.survey import QueueState
from embermq.scan.wanted import OffsetRange
from embermq_spark.admission import spread
from embermq_spark.brokers import Broker
from embermq_spark.compat import ReadAllAvailable, ReadLimit
from embermq_spark.group_progress import GroupProgress
from embermq_spark.options import ReadOptions
from embermq_spark.pieces import Piece
from embermq_spark.selection import check_names, is_selected, offset_finder
from embermq_spark.stream import Stream, is_unlimited, make_patience
from embermq_spark.stream_offsets import Nested, QueueKey, QueueOffsets, flatten_queues, nest_queues

Queues = dict[QueueKey, QueueState]
Mapped = dict[str, object] | Nested


class QueueStream(Stream):
    """Reads queues."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._patience = make_patience(self.limits)
        self._target: Queues | None = None
        self._progress = GroupProgress(options)

    def _accepts(self, topic: str) -> bool:
        return self._wanted.accepts_topic(topic)

    def initialOffset(self) -> Nested:
        states = self._look(everything)  # so that a name that is not there can be told from the nearest that is
        check_names(self._options, self._brokers, list(states.values()))
        time_ms = self._options.starting_timestamp
        find = offset_finder("starting", self._options, states)
        offsets: QueueOffsets = {}
        for broker, state in states.items():
            queues = self._queues_of({broker: state})
            if time_ms is None:
                offsets |= {key: find(broker, queue) for key, queue in queues.items()}
            else:
                search = broker.search(state)
                offsets |= {key: search.find_offset(queue, time_ms) for key, queue in queues.items()}
        return nest_queues(offsets)

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> Mapped:
        begin = flatten_queues(start)
        self._progress.commit(begin)
        states = self._look()
        known = self._queues_of(states)
        begin = self._without_lost(begin, known)
        queues = self._within_target(known)
        available = {key: max(queues[key].end - offset, 0) for key, offset in begin.items() if key in queues}
        entering = {key: queue for key, queue in queues.items() if key not in begin}
        if not is_unlimited(limit):
            waiting = sum(available.values()) + sum(queue.end - queue.begin for queue in entering.values())
            if self._target is None and not self._patience.is_over(waiting):
                return start
            available = self._admit(available, begin, queues, states)
        end = {key: offset + available.get(key, 0) for key, offset in begin.items()}
        end |= {key: queue.begin for key, queue in entering.items()}
        nested = nest_queues(end)
        return start if nested == start else nested

    def reportLatestOffset(self) -> Nested:
        return nest_queues({key: queue.end for key, queue in self._queues_of(self._look()).items()})

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._queues_of(self._look())

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        begins, ends = flatten_queues(start), flatten_queues(end)
        pieces: list[InputPartition] = []
        for broker in self._brokers:
            ranges = tuple(
                OffsetRange(key.topic, key.queue, begins.get(key, offset), offset)
                for key, offset in ends.items()
                if key.broker == broker.name and begins.get(key, offset) < offset
            )
            if ranges:
                wanted = replace(
                    self._wanted, topics=None, pattern=None, system_topics=True, ranges=ranges, broker_name=broker.name
                )
                least = self._options.min_partitions or 1
                splits = broker.plan(wanted, split_size=self._options.split_size, min_partitions=least)
                pieces += [Piece(split, wanted) for split in splits]
        return pieces

    def with_new(self, start: dict[str, Any]) -> dict[str, Any]:
        begin = flatten_queues(start)
        return nest_queues({**flatten_queues(self.latestOffset(start, ReadAllAvailable())), **begin})

    def _queues_of(self, states: Mapping[Broker, StoreState]) -> Queues:
        return {
            QueueKey(queue.topic, broker.name, queue.queue): queue
            for broker, state in states.items()
            for queue in state.queues
            if is_selected(self._options, self._wanted, broker, queue)
        }

    def _within_target(self, queues: Queues) -> Queues:
        """Queues as they were when the stream was asked to end there, if it was."""
        if self._target is None:
            return queues
        return {
            key: queue._replace(end=min(queue.end, self._target[key].end))
            for key, queue in queues.items()
            if key in self._target
        }

    def _without_lost(self, begin: QueueOffsets, queues: Queues) -> QueueOffsets:
        """Where the stream goes on: the same, unless messages are gone and that may be."""
        found = {}
        for key, offset in begin.items():
            queue = queues.get(key)
            if queue is None:
                self._report_loss(self._loss(key, f"what follows offset {offset}", self._reason_of_missing(key)))
                found[key] = offset
            elif offset < queue.begin:
                has = f"it has [{queue.begin}, {queue.end}): the rest was deleted before the stream read it"
                self._report_loss(self._loss(key, f"offsets [{offset}, {queue.begin})", has))
                found[key] = queue.begin
            elif offset > queue.end:
                has = f"it has [{queue.begin}, {queue.end}): the topic was made anew, or the store lost its end"
                self._report_loss(self._loss(key, f"what follows offset {offset}", has))
                found[key] = queue.end
            else:
                found[key] = offset
        return found

    def _reason_of_missing(self, key: QueueKey) -> str:
        """Why a queue of the checkpoint is not among those that are read."""
        broker = next((broker for broker in self._brokers if broker.name == key.broker), None)
        if broker is None:
            return f"no broker has this name now; there is {', '.join(sorted(each.name for each in self._brokers))}"
        if not is_selected(self._options, self._wanted, broker, QueueState(key.topic, key.queue, 0, 0)):
            return (
                "options leave it out, and the checkpoint has it; give the options that the checkpoint was made with, "
                "or a new checkpointLocation"
            )
        return "the queue is gone"

    def _loss(self, key: QueueKey, what: str, reason: str) -> DataLoss:
        return DataLoss(f"broker {key.broker}, topic {key.topic!r}, queue {key.queue}", what=what, reason=reason)

    def _admit(
        self,
        available: Mapping[QueueKey, int],
        begin: QueueOffsets,
        queues: Queues,
        states: Mapping[Broker, StoreState],
    ) -> dict[QueueKey, int]:
        """How many messages of each queue go into a batch that options limit."""
        limits, total = self.limits, sum(available.values())
        taken = dict(available) if limits.max_offsets is None else spread(available, limits.max_offsets)
        if limits.max_bytes is None:
            return taken
        for broker, state in states.items():
            search = broker.search(state)
            for key, count in taken.items():
                if key.broker == broker.name and count:
                    share = limits.max_bytes * available[key] // total
                    taken[key] = min(count, search.count_within(queues[key], begin[key], share))
        return taken
