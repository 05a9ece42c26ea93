"""What a read is about: of each broker, which messages, from where to where."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from embermq.errors import DataLoss, SettingsError, TopicNotFound
from embermq.scan.store_state import StoreState
from embermq.scan.survey import QueueState
from embermq.scan.wanted import OffsetRange, Wanted
from embermq_spark.brokers import Broker, GroupOffsets, find_brokers, find_group
from embermq_spark.option_values import EARLIEST, LATEST, Offsets
from embermq_spark.options import ReadOptions, name_of

log = logging.getLogger(__name__)

OffsetOf = Callable[[Broker, QueueState], int]


@dataclass(frozen=True, slots=True)
class Selected:
    """What is wanted of one broker, whose store was as `state` says."""

    broker: Broker
    state: StoreState
    wanted: Wanted


def select(options: ReadOptions, columns: tuple[str, ...]) -> list[Selected]:
    """What a batch reads. Raises SettingsError, StoreError or TopicNotFound for what is not there."""
    wanted = make_wanted(options, columns)
    brokers = find_brokers(options, wanted)
    states = [broker.look() for broker in brokers]
    check_names(options, brokers, states)
    found = []
    for broker, state in zip(brokers, states, strict=True):
        known = {queue.topic for queue in state.queues}
        topics = wanted.topics
        if topics is not None:
            topics = topics & known
            if not topics:
                continue
        own = replace(wanted, topics=topics, broker_name=broker.name)
        found.append(Selected(broker, state, own))
    if options.assign is None and options.starting_offsets is None and options.ending_offsets is None:
        return found
    seen = dict(zip(brokers, states, strict=True))
    start, end = offset_finder("starting", options, seen), offset_finder("ending", options, seen)
    return [_with_ranges(each, options, start, end) for each in found]


def make_wanted(options: ReadOptions, columns: tuple[str, ...]) -> Wanted:
    """What is wanted of every broker."""
    topics = frozenset(options.subscribe or options.assign or ())
    return Wanted(
        topics=topics or None,
        pattern=options.subscribe_pattern,
        system_topics=options.include_system_topics,
        begin_time_ms=options.starting_timestamp,
        end_time_ms=options.ending_timestamp,
        filter_text=options.filter_expression,
        keys=frozenset(options.keys) or None,
        unique_keys=frozenset(options.uniq_keys) or None,
        columns=columns,
        decode_body=options.decode_body,
        skip_damaged=not options.fail_on_data_loss,
        fail_on_loss=options.fail_on_data_loss,
    )


def check_names(options: ReadOptions, brokers: Sequence[Broker], states: Sequence[StoreState]) -> None:
    """Raise TopicNotFound or SettingsError for topics, brokers and queues that options name and that are not there."""
    known = {queue.topic for state in states for queue in state.queues}
    for topic in sorted({*options.subscribe, *(options.assign or ())}):
        _check_topic(topic, known, brokers)
    held = {broker.name: (broker, state) for broker, state in zip(brokers, states, strict=True)}
    wanted = make_wanted(options, ())
    for option, topic, name, queue, offset in _iter_named(options):
        if not wanted.accepts_topic(topic):
            raise SettingsError(f"option {option} names topic {topic!r}, which other options leave out")
        _check_topic(topic, known, brokers)
        if name not in held:
            raise SettingsError(f"option {option} names broker {name!r}; there is {', '.join(sorted(held))}")
        broker, state = held[name]
        queues = [each.queue for each in state.queues if each.topic == topic]
        if queue in queues:
            continue
        if not broker.has_queue(topic, queue):
            has = f"has {', '.join(map(str, queues))}" if queues else "has none"
            raise SettingsError(f"option {option} names queue {queue} of topic {topic!r}, which {has} at {name}")
        if offset not in (EARLIEST, LATEST):  # nothing was sent to it yet
            _within(offset, broker, QueueState(topic, queue, 0, 0), option, fail=options.fail_on_data_loss)


def _check_topic(topic: str, known: Collection[str], brokers: Sequence[Broker]) -> None:
    """Raise TopicNotFound unless it is `known`, or there though nobody has sent anything yet."""
    if topic not in known and not any(broker.knows_topic(topic) for broker in brokers):
        nearest = difflib.get_close_matches(topic, known, n=1)
        raise TopicNotFound(topic, nearest[0] if nearest else None)


def is_selected(options: ReadOptions, wanted: Wanted, broker: Broker, queue: QueueState) -> bool:
    """Whether messages of this queue are wanted at all."""
    if options.assign is not None:
        return queue.queue in options.assign.get(queue.topic, {}).get(broker.name, ())
    return wanted.accepts_topic(queue.topic)


def offset_finder(kind: str, options: ReadOptions, states: Mapping[Broker, StoreState]) -> OffsetOf:
    """What gives the offset of a queue that `startingOffsets` or `endingOffsets` stands for."""
    said: Offsets | None = getattr(options, f"{kind}_offsets")
    option = name_of(f"{kind}_offsets")
    groups: dict[str, GroupOffsets] = {}
    if said == "group":
        assert options.group is not None
        groups = find_group(states, options.group)

    def find(broker: Broker, queue: QueueState) -> int:
        first, last = queue.begin, queue.end
        match said:
            case None:
                offset = first if kind == "starting" else last
            case "earliest":
                offset = first
            case "latest":
                offset = last
            case "group":  # what a group never read it has yet to read
                offset = groups[broker.name].get(queue.topic, {}).get(queue.queue, first)
            case _:
                default = EARLIEST if kind == "starting" else LATEST
                offset = said.get(queue.topic, {}).get(broker.name, {}).get(queue.queue, default)
        if offset in (EARLIEST, LATEST):
            return first if offset == EARLIEST else last
        return _within(offset, broker, queue, option, fail=options.fail_on_data_loss)

    return find


def _within(offset: int, broker: Broker, queue: QueueState, option: str, *, fail: bool) -> int:
    if queue.begin <= offset <= queue.end:
        return offset
    loss = DataLoss(
        f"{broker.place.name}, topic {queue.topic!r}, queue {queue.queue}",
        what=f"offset {offset}, which {option} says,",
        reason=f"it has [{queue.begin}, {queue.end})",
    )
    if fail:
        raise loss
    log.warning("lost place=%s what=%s reason=%s", loss.place, loss.what, loss.reason)
    return min(max(offset, queue.begin), queue.end)


def _with_ranges(selected: Selected, options: ReadOptions, start: OffsetOf, end: OffsetOf) -> Selected:
    broker, state, wanted = selected.broker, selected.state, selected.wanted
    ranges = []
    for queue in state.queues:
        if not is_selected(options, wanted, broker, queue):
            continue
        first, last = start(broker, queue), end(broker, queue)
        if first > last:
            raise SettingsError(
                f"topic {queue.topic!r}, queue {queue.queue} of {broker.name}: startingOffsets says {first}, "
                f"behind {last}, which endingOffsets says: nothing lies between"
            )
        ranges.append(OffsetRange(queue.topic, queue.queue, first, last))
    return replace(selected, wanted=replace(wanted, ranges=tuple(ranges)))


def _iter_named(options: ReadOptions) -> Iterator[tuple[str, str, str, int, int]]:
    """Option, topic, broker, queue and offset, of all queues that options name; of `assign`, the earliest."""
    for field in ("assign", "starting_offsets", "ending_offsets"):
        said = getattr(options, field)
        if not isinstance(said, str) and said is not None:
            for topic, brokers in said.items():
                for broker, queues in brokers.items():
                    offsets = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, EARLIEST)
                    yield from ((name_of(field), topic, broker, *each) for each in offsets.items())
