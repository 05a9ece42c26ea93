"""Answers to what kernels took: those of the broker, however little room there is for them."""

from __future__ import annotations

from random import Random
from typing import cast

import numpy as np
import pytest

import embermq.broker.fast_answers as module
from embermq.broker.fast_answers import FastAnswers, WrittenShares
from embermq.broker.fast_peers import FastPeer
from embermq.broker.send_answers import SendAnswers
from embermq.errors import StoreUnwritable
from embermq.format.command import ONEWAY, Command, decode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, split_frames
from embermq.kernels.shares import SHARE_WIDTH
from embermq.model.message import Host
from tests.unit.broker.peers import RecordingPeer
from tests.unit.kernels.test_answers import Fact, by_broker, fill

HOST = Host("127.0.0.1", 10911)
IDS = ("AC15", "a-b", 'q"', "é中", "0" * 60)


def facts_of(random: Random, count: int) -> list[Fact]:
    return [
        (
            number,
            random.choice((0, 0, ONEWAY)),
            random.choice((JSON_FORM, BINARY_FORM)),
            random.randrange(9),
            random.randrange(2**40),
            tuple(random.randrange(2**40) for _ in range(random.choice((1, 1, 2, 32)))),
            random.choice(IDS),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("room", [0, 100, 250, 300, 1000, 5000, 1 << 20])
def test_the_bytes_are_the_brokers_with_any_room(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOM", room)
    answers = FastAnswers(SendAnswers("r", host_of=lambda peer: HOST))
    random = Random(room)
    for _ in range(20):
        facts = facts_of(random, random.randrange(1, 30))
        rows, records = fill(facts)
        ends = sorted({random.randrange(1, len(facts) + 1), len(facts)})
        peers = [cast("FastPeer", RecordingPeer()) for _ in ends]
        none = WrittenShares(np.zeros((len(ends), SHARE_WIDTH), np.int64), written=0, is_sent=False)
        found = answers.frames(list(zip(peers, ends, strict=True)), none, rows, records)
        begin = 0
        for peer, end, (to, count, frames) in zip(peers, ends, found, strict=True):
            assert (to, count) == (peer, end - begin)
            assert frames == by_broker(facts[begin:end], region="r", host=HOST)
            begin = end


def test_refusals_are_the_brokers() -> None:
    plain = SendAnswers("r", host_of=lambda peer: HOST)
    facts = facts_of(Random(1), 20)
    rows, _ = fill(facts)
    error = StoreUnwritable("no space")
    frames, _ = split_frames(FastAnswers(plain).refusals(rows, 5, 15, error))
    expected = [
        plain.refused(Command(310, {}, b"", opaque, form=form), error)
        for opaque, flag, form, *_ in facts[5:15]
        if not flag
    ]
    assert len(frames) == len(expected) > 3
    for frame, wanted in zip(frames, expected, strict=True):
        answer = decode_command(frame)
        assert (answer.opaque, answer.code, answer.form) == (wanted.opaque, wanted.code, wanted.form)
        assert (answer.fields, answer.remark) == (wanted.fields, wanted.remark)
