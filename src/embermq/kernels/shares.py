"""The end of a turn: where its messages are, the answers that say so, and the sockets they go to, in one call.

A share is what one peer gets: the answers to the rows behind the last of the peer before it.
"""

from __future__ import annotations

from typing import Final, cast

from numba import types

from embermq.kernels.answers import ALL_DONE, write_answers
from embermq.kernels.compiling import Table, kernel, variable
from embermq.kernels.memory import get, row_at
from embermq.kernels.placing import tell_places
from embermq.kernels.send_rows import ROW_SIZE
from embermq.kernels.sockets import DONT_WAIT, PEER_WIDTH, SOCKET, SOCKET_CALL, TEXTS, TEXTS_SIZE, SocketCall

# What is known of a share: the number of the row behind its last, its peer's slot, below 0 if it has none, and whether
# it may be written to that peer's socket; then where its answers end among all, and how many bytes of them were sent.
SHARE_ROWS_END, SHARE_SLOT, SHARE_IS_FREE, SHARE_END, SHARE_SENT = range(5)
SHARE_WIDTH: Final = 5

_NO_SIGNAL: Final = 0x4000  # MSG_NOSIGNAL

_send = cast("SocketCall", types.ExternalFunction("send", SOCKET_CALL))


@kernel("int64(int64, int64, int64[:, ::1], int64[:, ::1], int64, int64, int64, int64, int64, int64)")
def write_shares(
    rows: int, row_count: int, peers: Table, shares: Table, records: int, record_count: int, scratch: int,
    scratch_size: int, out: int, out_size: int,
) -> int:  # fmt: skip
    """Write the answers of shares, one after the other; how many are done before one that plain code has to do."""
    row, at = variable(0), variable(0)
    if shares.shape[1] != SHARE_WIDTH or peers.shape[1] != PEER_WIDTH:
        return 0
    for number in range(len(shares)):
        end, slot = shares[number, SHARE_ROWS_END], shares[number, SHARE_SLOT]
        if not row <= end <= row_count or not 0 <= slot < len(peers):
            return number
        peer = row_at(peers, slot)
        _, size, reason = write_answers(
            rows + row * ROW_SIZE, end - row, records, record_count, scratch, scratch_size, get(peer, TEXTS),
            get(peer, TEXTS_SIZE), out + at, out_size - at,
        )  # fmt: skip
        if reason != ALL_DONE:
            return number
        row, at = end, at + size
        shares[number, SHARE_END] = at
    return len(shares)


@kernel("int64(int64[:, ::1], int64[:, ::1], int64, int64)")
def send_shares(peers: Table, shares: Table, out: int, out_size: int) -> int:
    """Send peers their shares of what lies in `out`, as far as their sockets take it; how many are not sent whole.

    What went wrong is found by whoever sends the rest.
    """
    begin, unsent = variable(0), variable(0)
    if shares.shape[1] != SHARE_WIDTH or peers.shape[1] != PEER_WIDTH:
        return len(shares)
    for number in range(len(shares)):
        slot, end = shares[number, SHARE_SLOT], shares[number, SHARE_END]
        shares[number, SHARE_SENT] = 0
        if not 0 <= slot < len(peers) or not begin <= end <= out_size:
            return unsent + len(shares) - number
        if shares[number, SHARE_IS_FREE] != 0 and end > begin:
            socket = get(row_at(peers, slot), SOCKET)
            shares[number, SHARE_SENT] = max(_send(socket, out + begin, end - begin, DONT_WAIT | _NO_SIGNAL), 0)
        if shares[number, SHARE_SENT] < end - begin:
            unsent += 1
        begin = end
    return unsent


@kernel(
    "UniTuple(int64, 3)(int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64, int64, int64[:, ::1],"
    " int64[:, ::1], int64, int64, int64, int64, int64)"
)
def answer_turn(
    rows: Table, drafts: Table, records: Table, queues: Table, numbers: int, numbers_size: int, peers: Table,
    shares: Table, scratch: int, scratch_size: int, out: int, out_size: int, is_sending: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Tell every row where its messages are, write the answers to all, and send them if that is wanted.

    Returns how many rows were told, how many shares are written, and how many are not sent whole. Nothing is written
    if a row could not be told, and nothing sent if a share could not be written.
    """
    told = tell_places(rows, drafts, records, queues, numbers, numbers_size)
    if told < len(rows) or told == 0:
        return told, 0, len(shares)
    written = write_shares(
        row_at(rows, 0), len(rows), peers, shares, row_at(records, 0), len(records), scratch, scratch_size, out,
        out_size,
    )  # fmt: skip
    if written < len(shares) or is_sending == 0:
        return told, written, len(shares)
    return told, written, send_shares(peers, shares, out, out_size)
