"""Recorded requests, said again to a broker of ours, and what was otherwise than RocketMQ's answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.command import Command
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import Host
from embermq.model.properties import parse_properties
from tests.golden.recorded_state import FIRST_MS, SENDS, Preparation, RecordedState
from tests.golden.recordings import (
    Recorded,
    answers_by_request,
    is_asked,
    is_complete,
    prologue_of,
    read_scenario,
)
from tests.golden.wire_comparison import differences, told_differences
from tests.unit.broker.brokers import until, with_broker
from tests.unit.broker.peers import RecordingPeer, SteppedClock

# The settings of the recorded broker, as far as they show: see make/wire.py.
HOST = Host("127.0.0.2", 20_931)
STORE = {"max_message_size": 16_384, "delay_levels": "1s 2s 2s 3s 30s 1m"}
SETTINGS = BrokerSettings(
    recall=False, trace_topic=False, transaction_timeout_ms=3_000, transaction_check_interval_ms=3_000, sql_filters=True
)
STEP_MS = 500
WAITED_MS = 1_000  # a pop that was answered later than this had to wait
QUEUE_ORDER = 98  # what the recorded broker threw, or might have: queue 0 first, retries last
CLIENT_ADDRESS = "127.0.0.1"  # whom the recorder, through which all went, was for the broker
TRANSLATED: dict[int, str] = {
    RequestCode.VIEW_MESSAGE_BY_ID: "offset",
    RequestCode.CONSUMER_SEND_MSG_BACK: "offset",
}


def _time_of_pop(request: Command, answer: Command | None) -> int:
    """When a pop, or a change of an invisible time, was dealt with first; 0 for other requests."""
    if answer is None or "popTime" not in answer.fields:
        return 0
    popped, born = int(answer.fields["popTime"]), int(request.fields.get("bornTime", 0))
    return born if born and popped - born > WAITED_MS else popped


class Replay:
    """Recorded frames, said again to a broker of ours."""

    def __init__(self, broker: Broker, clock: SteppedClock, name: str) -> None:
        self.scenario = name
        self.compared = 0
        self.served = 0
        self.questions = 0  # about transactions, which come when time has passed
        self.wrong: list[str] = []
        self._broker = broker
        self._clock = clock
        self._frames = [frame for each in (*prologue_of(name), name) for frame in read_scenario(each)]
        self._answers = answers_by_request(self._frames)
        self._requests = {answer.place: place for place, answer in self._answers.items()}
        self._preparation = Preparation(broker, clock, RecordedState(self._frames))
        self._peers: dict[int, RecordingPeer] = {}
        self._told: dict[int, list[Command]] = {}  # requests of the broker, as they were recorded
        self._sent: dict[str, Recorded] = {}

    async def run(self) -> None:
        for number, frame in enumerate(self._frames):
            if frame.peer == "namesrv":
                self._hear_name_server(frame)
            elif is_asked(frame):
                await self._ask(number, frame)
            elif frame.is_request:
                if frame.scenario == self.scenario:
                    self._told.setdefault(frame.connection, []).append(frame.command)
            elif not frame.is_from_client:
                await self._compare(frame)
        self._compare_told()
        self._check_unanswered()

    def _hear_name_server(self, frame: Recorded) -> None:
        answer = self._answers.get(frame.place)
        if frame.is_request and frame.command.code == RequestCode.GET_ROUTE_BY_TOPIC and answer is not None:
            self._preparation.hear_of_route(frame.command.fields["topic"], answer.command)

    async def _ask(self, number: int, frame: Recorded) -> None:
        request, answer = frame.command, self._answers.get(frame.place)
        await self._wait_for_sends()
        self._preparation.before(number, request, answer.command if answer else None)
        if frame.scenario == self.scenario:
            self._preparation.note_request(request)
        if request.code in SENDS and answer is not None:
            self._clock.time_ms = self._preparation.time_of_send(request, answer.command)
        self._clock.time_ms = max(self._clock.time_ms, _time_of_pop(request, answer.command if answer else None))
        self._script_clients(number, request)
        self._sent[frame.place] = frame
        stored = self._broker.store.state().puts.messages
        self._broker.router.receive(self._peer(frame), [self._translated(request)])
        if request.is_oneway and request.code in SENDS:  # no answer tells when it is there
            await until(lambda: self._broker.store.state().puts.messages > stored)

    def _translated(self, request: Command) -> Command:
        """A request that names a position, with the position that ours has."""
        if (name := TRANSLATED.get(request.code)) is None:
            return request
        fields = {**request.fields, name: str(self._preparation.position_of(int(request.fields[name])))}
        return Command(request.code, fields, request.body, request.opaque, request.flag, form=request.form)

    def _script_clients(self, number: int, request: Command) -> None:
        """Have clients answer as they did what the broker asks them because of this request."""
        if request.code == RequestCode.SEND_REPLY_MESSAGE_V2:  # the push to who waits was not recorded
            client = parse_properties(request.fields["i"].encode())["REPLY_TO_CLIENT"]
            asking = [each for each in self._frames[:number] if client in each.command.fields.get("i", "")]
            self._peer(asking[-1]).will_answer()
            return
        for asked in self._frames[number:]:
            if asked.kind == "request" and not asked.is_from_client and asked.command.code == request.code:
                answer = self._answers[asked.place].command
                self._peer(asked).will_answer(answer.code, answer.data, remark=answer.remark)
                return

    async def _wait_for_sends(self) -> None:
        for place, frame in self._sent.items():
            if frame.command.code in SENDS and place in self._answers:
                await until(partial(self._find_answer, frame))

    async def _compare(self, frame: Recorded) -> None:
        asked = self._sent.pop(self._requests.get(frame.place, ""), None)
        if asked is None:
            return  # its request was left out
        if frame.command.code == ResponseCode.SUBSCRIPTION_NOT_LATEST:
            self._note_served(asked)
            return
        await self._pass_time(asked, int(frame.command.fields.get("popTime", 0)))
        await until(lambda: self._find_answer(asked) is not None)
        answer = self._find_answer(asked)
        assert answer is not None
        if frame.scenario != self.scenario:
            return
        self.compared += 1
        for difference in differences(asked.command, frame.command, answer):
            self.wrong.append(f"{asked.place} request {asked.command.code}: {difference}")

    async def _pass_time(self, asked: Recorded, end_ms: int) -> None:
        """Let the clock go to `end_ms`, in steps, unless a pop that waits is answered before."""
        while self._clock.time_ms < end_ms and self._find_answer(asked) is None:
            self._clock.time_ms = min(end_ms, self._clock.time_ms + STEP_MS)
            await until(self._is_all_delivered)
            await self._broker.pops.revival.round()

    def _is_all_delivered(self) -> bool:
        """Whether the timer has nothing left that is due by now."""
        assert self._broker.timers is not None
        self._broker.timers.wake()
        due = self._broker.timers.timers.next_time()
        return not self._broker.timers.timers.behind and (due is None or due > self._clock.time_ms)

    def _note_served(self, asked: Recorded) -> None:
        """RocketMQ refuses a pull that is ahead of its client's heartbeat, for up to half a minute; ours serves it."""
        answer = self._find_answer(asked)
        self.served += 1
        if answer is not None and answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND):
            self.wrong.append(f"{asked.place} a pull was refused: {answer}")

    def _compare_told(self) -> None:
        """What the broker told and asked its clients of its own accord."""
        for connection, recorded in self._told.items():
            peer = self._peers[connection]
            ours = [command for command in peer.sent if not command.is_answer] + [call for call, _ in peer.calls]
            for each in recorded:
                if each.code == RequestCode.CHECK_TRANSACTION_STATE:
                    self.questions += 1
                    continue
                found = [list(told_differences(each, command)) for command in ours if command.code == each.code]
                self.compared += 1
                if [] not in found:
                    self.wrong.append(f"{self.scenario}: told {each}, ours {found or ours}")
            codes = [each.code for each in recorded if each.code != RequestCode.CHECK_TRANSACTION_STATE]
            is_all = is_complete(self.scenario) and not prologue_of(self.scenario)
            if is_all and codes != [each.code for each in ours]:
                self.wrong.append(f"{self.scenario}: told {recorded}, ours {ours}")

    def _check_unanswered(self) -> None:
        """Requests whose answer came after the recording, or not at all: none of them is refused."""
        for frame in self._sent.values():
            answer = self._find_answer(frame)
            if frame.scenario != self.scenario or answer is None:
                continue
            if answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND):
                self.wrong.append(f"{frame.place} was left without an answer, ours is {answer}")

    def _find_answer(self, frame: Recorded) -> Command | None:
        opaque = frame.command.opaque
        found = [each for each in self._peer(frame).sent if each.is_answer and each.opaque == opaque]
        assert len(found) <= 1, "a request is answered once"
        return found[0] if found else None

    def _peer(self, frame: Recorded) -> RecordingPeer:
        return self._peers.setdefault(frame.connection, RecordingPeer(CLIENT_ADDRESS))


def replay(path: Path, name: str, then: Callable[[Broker, SteppedClock], Awaitable[None]] | None = None) -> Replay:
    """Replay a scenario in a directory of its own; `then` may look at the broker."""
    clock = SteppedClock(FIRST_MS)
    done: list[Replay] = []

    async def work(broker: Broker) -> None:
        broker.pops.reader.dice = lambda sides: QUEUE_ORDER
        done.append(Replay(broker, clock, name))
        await done[0].run()
        if then is not None:
            await then(broker, clock)

    with_broker(path, work, clock=clock, host=HOST, settings=SETTINGS, **STORE)
    return done[0]


def answered(name: str) -> list[tuple[Command, Command]]:
    """The requests to the broker in a recording, each with its answer."""
    frames = read_scenario(name)
    answers = answers_by_request(frames)
    return [
        (frame.command, answers[frame.place].command) for frame in frames if is_asked(frame) and frame.place in answers
    ]
