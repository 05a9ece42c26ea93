"""A stream of the whole log, by position: every message of every topic, in the order of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from embermq.errors import DataLoss, SettingsError
from embermq.scan.log_plan import choose_size, plan_stretch
from embermq.scan.searching import StoreSearch
from embermq.scan.splits import Split
from embermq.scan.store_state import StoreState
from embermq.scan.survey import Survey
from embermq_spark.admission import spread
from embermq_spark.compat import ReadLimit
from embermq_spark.options import ReadOptions
from embermq_spark.pieces import Piece
from embermq_spark.stream import Stream, is_unlimited, make_patience
from embermq_spark.stream_offsets import LogPositions, flatten_log, nest_log

Nested = dict[str, dict[str, int]]


class LogStream(Stream):
    """Reads the log."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        for broker in self._brokers:
            if not broker.gives_log:
                raise SettingsError(
                    f"broker {broker.name} does not give its whole log (not EmberMQ's, or it wants an administrator's "
                    "accessKey and secretKey); name topics with subscribe, subscribePattern or assign"
                )
        self._patience = make_patience(self.limits)
        self._target: LogPositions | None = None

    def _accepts(self, topic: str) -> bool:
        return False  # positions are of the log

    def initialOffset(self) -> Nested:
        time_ms = self._options.starting_timestamp
        positions = {}
        for broker, state in self._look().items():
            if time_ms is not None:
                positions[broker.name] = StoreSearch(state).find_position(time_ms)
            else:
                positions[broker.name] = state.end if self._options.starting_offsets == "latest" else state.begin
        return nest_log(positions)

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object] | Nested:
        states = {broker.name: state for broker, state in self._look().items()}
        begin = self._without_lost(flatten_log(start), states)
        if self._target is not None:
            states = {
                name: state._replace(end=min(state.end, self._target.get(name, 0))) for name, state in states.items()
            }
        end = {name: max(state.end, begin.get(name, state.begin)) for name, state in states.items()}
        if not is_unlimited(limit):
            if self._target is None and not self._is_worth_it(begin, states):
                return start
            end = self._admit(begin, states)
        nested = nest_log({**begin, **end})
        return start if nested == start else nested

    def reportLatestOffset(self) -> Nested:
        return nest_log({broker.name: state.end for broker, state in self._look().items()})

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {broker.name: state.end for broker, state in self._look().items()}

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        begins, ends = flatten_log(start), flatten_log(end)
        states = self._look()
        lacking = self._without_lost(begins, {broker.name: state for broker, state in states.items()})
        pieces: list[InputPartition] = []
        for broker, state in states.items():
            last = ends.get(broker.name, 0)
            first = max(lacking.get(broker.name, state.begin), state.begin)
            wanted = replace(self._wanted, broker_name=broker.name)
            pieces += [Piece(split, wanted) for split in self._cut(state, first, last)]
        return pieces

    def _cut(self, state: StoreState, begin: int, end: int) -> list[Split]:
        """Splits of the records that begin in [begin, end)."""
        if begin >= end:
            return []
        if end > state.end:
            what, has = f"the log up to position {end}", f"it ends at {state.end}"
            self._report_loss(DataLoss(state.place.name, what=what, reason=has))
            end = state.end
        size = choose_size(end - begin, self._options.split_size, self._options.min_partitions or 1)
        with closing(Survey(state.place)) as survey:
            return plan_stretch(survey, begin, end, size, is_exact=True)  # where an earlier batch ended

    def _without_lost(self, begin: LogPositions, states: Mapping[str, StoreState]) -> LogPositions:
        """Where the stream goes on: the same, unless something is gone and that may be."""
        found = {}
        for name, position in begin.items():
            state = states.get(name)
            if state is None:
                what = f"the log from position {position} on"
                reason = f"no broker has this name now; there is {', '.join(sorted(states))}"
                self._report_loss(DataLoss(f"broker {name}", what=what, reason=reason))
                found[name] = position
            elif position < state.begin:
                what = f"positions [{position}, {state.begin})"
                reason = "these files were deleted before the stream read them"
                self._report_loss(DataLoss(state.place.name, what=what, reason=reason))
                found[name] = state.begin
            elif position > state.end:
                what, reason = f"what follows position {position}", f"the log ends at {state.end}: it lost its end"
                self._report_loss(DataLoss(state.place.name, what=what, reason=reason))
                found[name] = state.end
            else:
                found[name] = position
        return found

    def _is_worth_it(self, begin: LogPositions, states: Mapping[str, StoreState]) -> bool:
        least = self.limits.min_offsets
        if least is None:
            return True
        available = 0
        for name, state in states.items():
            if available < least:
                found = StoreSearch(state).find_stop(begin.get(name, state.begin), count=least - available)
                available += found.records
        return self._patience.is_over(available)

    def _admit(self, begin: LogPositions, states: Mapping[str, StoreState]) -> LogPositions:
        """Up to where a batch goes that options limit; brokers share in proportion to their bytes."""
        starts = {name: begin.get(name, state.begin) for name, state in states.items()}
        waiting = {name: max(state.end - starts[name], 0) for name, state in states.items()}
        counts = _share(waiting, self.limits.max_offsets)
        sizes = _share(waiting, self.limits.max_bytes)
        ends = {}
        for name, state in states.items():
            ends[name] = starts[name]
            if waiting[name]:
                stop = StoreSearch(state).find_stop(starts[name], count=counts.get(name), size=sizes.get(name))
                ends[name] = stop.position
        return ends


def _share(waiting: Mapping[str, int], limit: int | None) -> dict[str, int]:
    return {} if limit is None else spread(waiting, limit)
