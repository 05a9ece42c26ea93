"""A broker is asked nonsense, by the hundred thousand, and goes on as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.model.codes import ResponseCode
from tests.fuzz.hostile import CODES, Hostile
from tests.fuzz.scene import prepare
from tests.fuzz.watching import Asking, nothing_unforeseen
from tests.unit.broker.brokers import Client, until, with_broker

ASK_A_CLIENT = {307, 309, 324, 325}  # which never answers here
CHUNK = 200  # requests between two looks at the answers
WAITING = (11, 361, 200_050, 200_054)  # for a message
CHANGED_BACK = ("brokerPermission", "autoCreateTopicEnable", "autoCreateSubscriptionGroup", "maxMessageSize")


def fuzz_broker(folder: Path, *, seed: int, rounds: int, is_damaged: bool = False) -> Asking:
    """Ask a new broker so many rounds of every request there is; check all that must hold."""
    bystander = folder / "outside.txt"
    bystander.write_text("untouched")
    data = folder / "broker" / "store"
    data.parent.mkdir()
    results: list[Asking] = []

    async def work(broker: Broker) -> None:
        hostile, asking = Hostile(seed), Asking(broker.router)
        results.append(asking)
        before = await settings_of(broker)
        await prepare(broker, asking.peer)
        codes = [code for _ in range(rounds) for code in CODES]
        hostile.chance.shuffle(codes)
        for number, code in enumerate(codes, 1):
            asking.put(hostile.damaged(code) if is_damaged else hostile.frame(code))
            if number % CHUNK == 0:
                await settle(broker, asking)
        await settle(broker, asking)
        await put_back(broker, before)
        await check_works(broker, f"after-{seed}")

    with nothing_unforeseen():
        with_broker(data, work)
        (asking,) = results
        asking.collect()
    assert asking.waiting() == [], "a broker that stops answers everybody"
    assert {*folder.iterdir()} == {data.parent, bystander}
    assert [*(folder / "broker").iterdir()] == [data]
    assert bystander.read_text() == "untouched"
    seconds, request = asking.slowest
    print(f"seed={seed} damaged={is_damaged} {dict(asking.counts)} slowest={seconds:.3f} s {request:.200}")
    return asking


async def settle(broker: Broker, asking: Asking) -> None:
    """All are answered but those that wait for a message."""

    def is_settled() -> bool:
        asking.collect()
        return all(request.code in WAITING for request in asking.waiting())

    await until(is_settled)
    assert len(asking.waiting()) <= len(broker.polls) + len(broker.pops.polls) + len(broker.pops.notifications)


async def settings_of(broker: Broker) -> dict[str, str]:
    answer = await Client(broker).ask(26)
    return dict(line.split("=", 1) for line in answer.data.decode().splitlines() if "=" in line)


async def put_back(broker: Broker, before: dict[str, str]) -> None:
    """What a request has changed can be changed back by another."""
    text = "".join(f"{name}={before[name]}\n" for name in CHANGED_BACK)
    assert (await Client(broker).ask(25, {}, text.encode())).code == 0


async def check_works(broker: Broker, topic: str) -> None:
    client = Client(broker)
    fields = {"topic": topic, "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    assert (await client.ask(17, {**fields, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG"})).code == 0
    sent = await client.send(topic, b"still here")
    assert sent.code == 0, sent
    pulled = await client.pull(topic, consumerGroup="survivors")
    assert pulled.code == 0 and b"still here" in pulled.data


def test_a_broker_answers_spoilt_requests_of_every_kind_and_goes_on(memory_path: Path) -> None:
    outcomes: set[tuple[int, int]] = set()
    for seed in range(1, 6):  # chance decides how far requests get, so more are made up if some got nowhere
        folder = memory_path / str(seed)
        folder.mkdir()
        outcomes |= set(fuzz_broker(folder, seed=seed, rounds=60).outcomes)
        asked = {code for code, _ in outcomes}
        understood = {code for code, outcome in outcomes if outcome == ResponseCode.SUCCESS}
        unknown = {code for code, outcome in outcomes if outcome == ResponseCode.NOT_SUPPORTED}
        if asked - understood - unknown == ASK_A_CLIENT:
            break
    assert asked == set(CODES)
    # It is no use to be refused at the door: every handler got to its end, too.
    assert asked - understood - unknown == ASK_A_CLIENT


def test_a_broker_answers_damaged_frames_and_goes_on(memory_path: Path) -> None:
    fuzz_broker(memory_path, seed=2, rounds=30, is_damaged=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_broker_answers_many_more_spoilt_requests(memory_path: Path, seed: int) -> None:
    fuzz_broker(memory_path, seed=seed, rounds=100, is_damaged=seed % 4 == 3)
