"""Nonsense at the door: who may ask what is decided before any handler, from requests that may be anything."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from embermq.access.access import Access
from embermq.access.accounts import Accounts
from embermq.errors import BadFrame
from embermq.format.command import Command, decode_command, encode_command
from embermq.format.frame import split_frames
from embermq.format.signature import signed
from embermq.model.access import Action, Entry, Pattern, Policy, User
from embermq.model.codes import ResponseCode
from embermq.rpc.router import Router
from tests.fuzz.hostile import CODES, Hostile
from tests.fuzz.watching import Asking, nothing_unforeseen

SECRETS = {"admin": "first-secret", "clerk": "second-secret", "nobody": "third-secret"}


def make_access(folder: Path) -> Access:
    """An administrator, and a clerk who may do something with `orders`."""
    accounts = Accounts(folder / "access.json")
    accounts.save_user(User("admin", SECRETS["admin"], is_super=True), User("clerk", SECRETS["clerk"]))
    actions = frozenset({Action.SUB, Action.PUB, Action.GET})
    entries = tuple(Entry(Pattern.parse(text), actions, allows=True) for text in ("Topic:orders", "Group:billing"))
    accounts.add_policy("clerk", Policy(custom=entries))
    return Access(accounts, cluster="DefaultCluster")


def sign_frame(frame: bytes, user: str) -> bytes:
    """The same request, signed by `user`; as it is if nobody can sign it."""
    try:
        (parts,), _ = split_frames(frame)
        request = decode_command(parts)
        fields = signed(request.fields, request.data, access_key=user, secret=SECRETS[user])
    except (BadFrame, UnicodeEncodeError):
        return frame
    command = Command(
        request.code, fields, request.body, request.opaque, request.flag, version=request.version, form=request.form
    )
    try:
        return encode_command(command)
    except struct.error:  # a version or a code that a binary header has no room for
        return frame


def fuzz_access(folder: Path, *, seed: int, rounds: int) -> Asking:
    hostile, asking = Hostile(f"access-{seed}"), Asking(Router(check=make_access(folder).check))

    async def work() -> None:
        for _ in range(rounds):
            for code in CODES:
                user = hostile.chance.choice(("", *SECRETS))
                frame = hostile.frame(code)
                asking.put(sign_frame(frame, user) if user else frame)
            asking.collect()

    with nothing_unforeseen():
        asyncio.run(work())
    assert asking.waiting() == []
    print(f"seed={seed} {dict(asking.counts)} slowest={asking.slowest[0]:.3f} s")
    return asking


def test_spoilt_requests_are_let_in_or_refused_and_nothing_else(tmp_path: Path) -> None:
    asking = fuzz_access(tmp_path, seed=1, rounds=40)
    outcomes = {outcome for _, outcome in asking.outcomes}
    assert outcomes >= {
        ResponseCode.NO_PERMISSION,
        ResponseCode.NOT_SUPPORTED,
    }  # the latter were let in: nobody is there


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10, 15))
def test_many_more_spoilt_requests_are_let_in_or_refused(tmp_path: Path, seed: int) -> None:
    fuzz_access(tmp_path, seed=seed, rounds=200)
