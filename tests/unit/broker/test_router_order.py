"""Requests of one read: in their order, except for those that have nothing to do with the others."""

from __future__ import annotations

from collections.abc import Sequence

from embermq.format.command import Command, make_request
from embermq.rpc.peer import Peer
from embermq.rpc.router import Router
from tests.unit.broker.peers import RecordingPeer

SENDS, PULLS, ENDS = 10, 11, 37


def test_batches_are_handed_on_in_order_and_loose_ones_together() -> None:
    seen: list[tuple[int, ...]] = []

    def note(peer: Peer, requests: Sequence[Command]) -> None:
        seen.append(tuple(request.code for request in requests))

    def note_too(peer: Peer, requests: Sequence[Command]) -> None:
        note(peer, requests)

    def note_loose(peer: Peer, requests: Sequence[Command]) -> None:
        note(peer, requests)

    router = Router()
    router.add_batch((SENDS,), note)
    router.add_batch((PULLS,), note_too)
    router.add_batch((ENDS,), note_loose, any_order=True)
    codes = (SENDS, ENDS, SENDS, PULLS, ENDS, SENDS)
    router.receive(RecordingPeer(), [make_request(code) for code in codes])
    assert seen == [(ENDS, ENDS), (SENDS, SENDS), (PULLS,), (SENDS,)]
    seen.clear()
    router.receive(RecordingPeer(), [make_request(ENDS), make_request(ENDS)])
    assert seen == [(ENDS, ENDS)]
