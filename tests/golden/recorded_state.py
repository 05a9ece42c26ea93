"""What the recorded broker had before it was asked: read from its answers, and given to ours.

The recorder joined in when there were messages, topics and offsets already, and it left repeated requests out.
So each queue is filled as far as the next answer shows it to reach, with the messages that answers show, and
offsets, topics and groups that no request of the scenario itself has spoken of are set as the answers have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from embermq.broker.broker import Broker
from embermq.format.assignment_body import RequestMode, decode_assignment, decode_query, encode_mode
from embermq.format.command import Command, make_request
from embermq.format.consume_stats_body import decode_consume_stats
from embermq.format.group_body import decode_group_table
from embermq.format.json_fields import parse_fields
from embermq.format.record import Draft, Record, decode_record
from embermq.format.route_body import decode_route
from embermq.format.topic_body import decode_topic, decode_topic_stats, decode_topic_table
from embermq.model.codes import RequestCode
from embermq.model.properties import POP_CK, parse_properties
from embermq.model.topic import TopicConfig
from tests.builders import ManualClock
from tests.golden.recordings import Recorded, answers_by_request, read_scenario, scenarios
from tests.unit.broker.peers import RecordingPeer

SENDS: Final = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
RECORD_ANSWERS: Final = (
    *PULLS, RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.POP_MESSAGE,
)  # fmt: skip
COMMITS: Final = 1  # in the sysFlag of a pull
FIRST_MS: Final = 1_794_776_090_000  # shortly before the first recorded message
MINUTE_S: Final = 60
OTHER_RUNS: Final = ("slave-", "broker-", "binary-broker-")  # with topics of the same names, but other queues

Queue = tuple[str, int]
Place = tuple[str, int, int]  # topic, queue, offset


def iter_records(data: bytes) -> Iterator[Record]:
    """The records of an answer, one behind the other."""
    at = 0
    while at < len(data):
        record = decode_record(data[at:], 0, check_position=False)
        yield record
        at += record.size


def place_of(record: Record) -> Place:
    return record.topic, record.queue, record.offset


class RecordedState:
    """What a recording shows of the broker's queues, by the order of its frames."""

    def __init__(self, frames: Sequence[Recorded]) -> None:
        self.messages: dict[Place, Record] = {}
        self.times: dict[Place, int] = {}
        self.positions: dict[int, Place] = {}  # in the recorded broker's log
        self._ends: dict[Queue, list[tuple[int, int]]] = {}  # frame number, end of the queue before its request
        answers = answers_by_request(frames)
        order = {frame.place: number for number, frame in enumerate(frames)}
        unanswered: list[tuple[int, Queue]] = []
        for number, frame in enumerate(frames):
            if frame.peer != "broker" or not frame.is_request:
                continue
            answer = answers.get(frame.place)
            if answer is not None and (answer.command.code == 0 or frame.command.code in PULLS):
                # What a send tells was so before it; what others tell, when they were answered.
                at = number if frame.command.code in SENDS else order[answer.place]
                self._note(at, frame.command, answer.command)
            elif answer is None and frame.command.code in SENDS:
                fields = frame.command.fields
                unanswered.append((number, (fields["b"], int(fields["e"]))))
        for known in self._ends.values():
            known.sort()
        for number, queue in reversed(unanswered):  # it took the place before the next that is known
            if (end := self.end_before(queue, number)) is not None:
                self._ends[queue] = sorted([*self._ends[queue], (number, end - 1)])

    def queues(self) -> Iterator[Queue]:
        return iter(self._ends)

    def end_before(self, queue: Queue, number: int) -> int | None:
        """How far the queue reached when frame `number` was sent, if a later answer tells."""
        return next((end for at, end in self._ends[queue] if at >= number), None) if queue in self._ends else None

    def _note(self, number: int, request: Command, answer: Command) -> None:
        fields, told = request.fields, answer.fields
        if request.code in RECORD_ANSWERS:
            for record in reversed(list(iter_records(answer.data))):  # the last tells how far the queue reached
                if POP_CK not in record.property_map():  # one from a retry topic, under another name
                    self._note_record(number, record, is_read=request.code in PULLS)
        if request.code in PULLS and "maxOffset" in told:
            self._note_end(number, (fields["topic"], int(fields["queueId"])), int(told["maxOffset"]))
        elif request.code in SENDS and "DELAY" not in parse_properties(fields["i"].encode()):
            self._note_end(number, (fields["b"], int(told["queueId"])), int(told["queueOffset"]))
        elif request.code == RequestCode.GET_MAX_OFFSET:
            self._note_end(number, (fields["topic"], int(fields["queueId"])), int(told["offset"]))
        elif request.code == RequestCode.QUERY_CONSUME_QUEUE:
            end = parse_fields(answer.data, "answer").integer("maxQueueIndex")
            self._note_end(number, (fields["topic"], int(fields["queueId"])), end)
        elif request.code == RequestCode.GET_TOPIC_STATS:
            for queue, stats in decode_topic_stats(answer.data).queues.items():
                self._note_end(number, (queue.topic, queue.queue), stats.next_offset)
                self.times[queue.topic, queue.queue, stats.next_offset - 1] = stats.last_time
        elif request.code == RequestCode.GET_CONSUME_STATS:
            for queue, progress in decode_consume_stats(answer.data).queues.items():
                self._note_end(number, (queue.topic, queue.queue), progress.broker_offset)
                self.times[queue.topic, queue.queue, progress.consumer_offset - 1] = progress.last_time_ms

    def _note_record(self, number: int, record: Record, *, is_read: bool) -> None:
        self.messages[place_of(record)] = record
        self.times[place_of(record)] = record.store_time
        self.positions[record.position] = place_of(record)
        queue = record.topic, record.queue
        is_told = any(at == number for at, _ in self._ends.get(queue, ()))
        if not is_read and not is_told:  # a pull tells the end itself
            self._note_end(number, queue, record.offset + 1)

    def _note_end(self, number: int, queue: Queue, end: int) -> None:
        self._ends.setdefault(queue, []).append((number, end))


class Preparation:
    """Gives a broker what the recorded one had."""

    def __init__(self, broker: Broker, clock: ManualClock, state: RecordedState) -> None:
        self._broker = broker
        self._clock = clock
        self._state = state
        self._spoken_of: set[object] = set()  # by requests of the scenario
        self._missing: set[str] = set()  # topics that the name server did not know

    def time_of_send(self, request: Command, answer: Command) -> int:
        """When the recorded broker stored a message, as far as it is known."""
        fields = answer.fields
        place = request.fields["b"], int(fields.get("queueId", -1)), int(fields.get("queueOffset", -1))
        return self._state.times.get(place, int(request.fields["g"]))

    def position_of(self, recorded: int) -> int:
        """Where our log has what the recorded one had at a position."""
        topic, queue, offset = self._state.positions[recorded]
        (entry,) = self._broker.store.entries(topic, queue=queue, offset=offset, limit=1)
        return entry.position

    def hear_of_route(self, topic: str, answer: Command) -> None:
        """A client was told the route of a topic."""
        if answer.code:
            self._missing.add(topic)
        else:
            self._make_topic(topic, answer)

    def note_request(self, request: Command) -> None:
        """A request of the scenario; what it speaks of is left to it from now on."""
        fields = request.fields
        match request.code:
            case RequestCode.UPDATE_CONSUMER_OFFSET:
                self._spoken_of.add((fields["topic"], fields["consumerGroup"], int(fields["queueId"])))
            case RequestCode.PULL_MESSAGE | RequestCode.LITE_PULL_MESSAGE if int(fields["sysFlag"]) & COMMITS:
                self._spoken_of.add((fields["topic"], fields["consumerGroup"], int(fields["queueId"])))
            case RequestCode.UPDATE_AND_CREATE_TOPIC | RequestCode.DELETE_TOPIC_IN_BROKER:
                self._spoken_of.add(fields["topic"])

    def before(self, number: int, request: Command, answer: Command | None) -> None:
        """Make ours what the recorded broker was when frame `number` reached it."""
        topic = request.fields.get("topic", request.fields.get("b", ""))
        self._make_known_topic(topic)
        self._fill({queue: self._state.end_before(queue, number) or 0 for queue in self._state.queues()})
        if answer is not None and answer.code == 0:
            self._set_tables(request, answer)

    def _make_known_topic(self, topic: str) -> None:
        if topic and topic not in self._missing and self._broker.topics.find(topic) is None:
            for route in _routes(topic):
                self._make_topic(topic, route)
                return

    def _make_topic(self, topic: str, answer: Command) -> None:
        if self._broker.topics.find(topic) is None and topic not in self._spoken_of:
            (queues,) = decode_route(answer.data).queues
            self._broker.topics.save(TopicConfig(topic, queues.read_queues, queues.write_queues, queues.permission))

    def _fill(self, ends: Mapping[Queue, int]) -> None:
        """Have queues reach so far. The oldest messages come first, for a log is in the order of time."""
        store, now = self._broker.store, self._clock.time_ms
        missing = [
            (topic, queue, offset)
            for (topic, queue), end in ends.items()
            for offset in range(store.offsets(topic, queue=queue)[1], end)
        ]
        for place in sorted(missing, key=lambda place: (self._time_of(place), place[2])):
            self._make_known_topic(place[0])
            self._clock.time_ms = self._time_of(place)
            store.put_drafts(partial(self._drafts, place))
        self._clock.time_ms = max(now, self._clock.time_ms)

    def _drafts(self, place: Place) -> list[Draft]:
        record = self._state.messages.get(place)
        if record is None:
            return [Draft(place[0].encode(), place[1], b"left out", b"")]
        draft = Draft(
            record.topic.encode(), record.queue, record.body, record.properties, record.flag, record.sys_flag,
            record.born_time, record.born_host, record.reconsume_times,
        )  # fmt: skip
        return [draft]

    def _time_of(self, place: Place) -> int:
        """When a message was stored; one that no answer shows, together with the one before it."""
        known = [
            time
            for (topic, queue, offset), time in self._state.times.items()
            if (topic, queue) == place[:2] and offset <= place[2]
        ]
        return max(known, default=FIRST_MS)

    def _set_tables(self, request: Command, answer: Command) -> None:
        broker, fields = self._broker, request.fields
        match request.code:
            case RequestCode.QUERY_CONSUMER_OFFSET:
                offset = int(answer.fields["offset"])
                number = int(fields["queueId"])
                # Offset 0 is what a group has in a queue whose first message is there.
                self._fill({(fields["topic"], number): 1})
                if offset:
                    self._commit(fields["topic"], fields["consumerGroup"], number, offset)
            case RequestCode.GET_CONSUME_STATS:
                group = fields["consumerGroup"]
                broker.groups.read(group)
                for queue, progress in decode_consume_stats(answer.data).queues.items():
                    self._make_known_topic(queue.topic)
                    self._commit(queue.topic, group, queue.queue, progress.consumer_offset)
                    broker.offsets.note_pull(queue.topic, group, queue.queue, progress.pull_offset)
            case RequestCode.QUERY_TOPIC_CONSUMERS:
                for name in parse_fields(answer.data, "answer").find_list("groupList") or ():
                    if fields["topic"] not in broker.offsets.topics_of(str(name)):
                        self._commit(fields["topic"], str(name), 0, 0)
            case RequestCode.GET_TOPIC_CONFIG:
                if fields["topic"] not in self._spoken_of:
                    broker.topics.save(decode_topic(answer.data))
            case RequestCode.GET_ALL_TOPIC_CONFIG:
                recorded = decode_topic_table(answer.data).topics.values()
                broker.topics.save(*(topic for topic in recorded if broker.topics.find(topic.name) is None))
            case RequestCode.GET_ALL_GROUP_CONFIG:
                groups = decode_group_table(answer.data).groups.values()
                broker.groups.save(*(group for group in groups if broker.groups.find(group.name) is None))
            case RequestCode.GET_BROKER_RUNTIME_INFO:
                for _ in range(MINUTE_S + 1):  # rates are known after that time
                    self._clock.advance(ms=1000)
                    broker.statistics.sample()
            case RequestCode.RESET_OFFSET:
                broker.groups.read(fields["group"])
            case RequestCode.QUERY_ASSIGNMENT:
                self._set_mode(request, answer)
            case RequestCode.VIEW_BROKER_STATS:
                topic, _, group = fields["statsKey"].partition("@")
                if group:
                    broker.statistics.count_get(topic, 0, group, 1, 1)
                else:
                    broker.statistics.count_put(topic, 0, 1, 1)

    def _commit(self, topic: str, group: str, queue: int, offset: int) -> None:
        if (topic, group, queue) not in self._spoken_of:
            self._broker.offsets.commit(topic, group, queue, offset)

    def _set_mode(self, request: Command, answer: Command) -> None:
        query = decode_query(request.data)
        self._make_known_topic(query.topic)
        for assigned in decode_assignment(answer.data) or ():
            mode = RequestMode(query.topic, query.group, assigned.mode, 8)
            self._broker.router.receive(
                RecordingPeer(), [make_request(RequestCode.SET_MESSAGE_REQUEST_MODE, body=encode_mode(mode))]
            )


def _routes(topic: str) -> Iterator[Command]:
    """What any recording tells of a topic's queues."""
    for name in scenarios():
        if name.startswith(OTHER_RUNS):
            continue
        frames = read_scenario(name)
        answers = answers_by_request([frame for frame in frames if frame.peer == "namesrv"])
        for frame in frames:
            answer = answers.get(frame.place)
            is_asked = frame.command.code == RequestCode.GET_ROUTE_BY_TOPIC and frame.command.fields["topic"] == topic
            if is_asked and answer is not None and answer.command.code == 0:
                yield answer.command
