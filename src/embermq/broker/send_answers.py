"""What a SEND is answered with: where its message is, or why it is nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from embermq.broker.intake import Sent
from embermq.errors import FlushTimeout
from embermq.format.command import ONEWAY, VERSION, Command, encode_command, make_answer
from embermq.format.frame import FRAME_HEAD, JSON_FORM
from embermq.format.host import encode_host
from embermq.model.codes import ResponseCode
from embermq.model.message import Host
from embermq.model.properties import MSG_REGION, TRACE_ON
from embermq.rpc.outcome import make_refusal
from embermq.rpc.peer import Peer
from embermq.store.writer import Submitted

_HEADS: Final[dict[int, str]] = {}  # by the size of a header
NO_FIELDS: Final[dict[str, str]] = {}


class Wanted(NamedTuple):
    """An answer that waits for the store: whose, and to which drafts of a put."""

    request: Command
    begin: int
    drafts: int
    queue: int
    unique_id: str
    fields: dict[str, str] = NO_FIELDS


Answerable = Wanted | tuple[Command, int, int, int, str, dict[str, str]]  # plain tuples for plain messages


def wanted_of(request: Command, begin: int, sent: Sent) -> Wanted:
    """The answer to a request whose drafts begin at `begin` of a put."""
    fields = NO_FIELDS
    if sent.is_one_record:
        fields = {"batchUniqId": sent.unique_id}
    elif sent.recall_handle:
        fields = {"recallHandle": sent.recall_handle}
    return Wanted(request, begin, len(sent.drafts), sent.queue, sent.unique_id, fields)


class SendAnswers:
    """Makes the answers to SENDs, many at a time."""

    def __init__(self, region: str, *, host_of: Callable[[Peer], Host]) -> None:
        self._host_of = host_of
        self._hosts: dict[Host, str] = {}
        self.use(region)

    def use(self, region: str) -> None:
        """Tell this region from now on."""
        self.region = region
        self.always = {MSG_REGION: region, TRACE_ON: "true"}  # fields of every answer
        self._after_position = f'","TRACE_ON":"true","MSG_REGION":{json.dumps(region)},"queueOffset":"'

    def stored(self, peer: Peer, wanted: Sequence[Answerable], submitted: Submitted) -> bytes:
        """The frames that say where messages are."""
        # As text in which every character is one byte, because text is put together faster than bytes.
        frames: list[str] = []
        add, heads, host, after = frames.append, _HEADS, self.host_text(peer), self._after_position
        offsets, positions = submitted.offsets, submitted.positions
        for each in wanted:
            request, begin, drafts, queue, unique_id, more = each
            if request.flag & ONEWAY:
                continue
            handle = more.get("recallHandle") if more else ""
            is_plain = not more or (handle and len(more) == 1)
            if request.form == JSON_FORM and is_plain and unique_id.isalnum() and unique_id.isascii():
                recall = f'"recallHandle":"{handle}",' if handle else ""
                ids = f"{host}{positions[begin]:016X}" if drafts == 1 else _ids(host, positions[begin : begin + drafts])
                header = (
                    f'{{"code":0,"extFields":{{{recall}"queueId":"{queue}","transactionId":"{unique_id}","msgId":"{ids}'
                    f'{after}{offsets[begin]}"}},"flag":1,"language":"PYTHON",'
                    f'"opaque":{request.opaque},"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
                )
                add(heads.get(len(header)) or _head_of(len(header)))
                add(header)
            else:
                fields = self._fields(Wanted._make(each), submitted, host)
                add(encode_command(make_answer(request, ResponseCode.SUCCESS, fields)).decode("latin-1"))
        return "".join(frames).encode("latin-1")

    def unconfirmed(self, peer: Peer, wanted: Sequence[Answerable], submitted: Submitted, error: FlushTimeout) -> bytes:
        """The frames that say where messages are, and that the disk has not confirmed it."""
        host = self.host_text(peer)
        return b"".join(
            encode_command(
                make_answer(
                    each.request,
                    ResponseCode.FLUSH_DISK_TIMEOUT,
                    self._fields(each, submitted, host),
                    remark=str(error),
                )
            )
            for each in map(Wanted._make, wanted)
            if not each.request.is_oneway
        )

    def refused(self, request: Command, error: Exception) -> Command:
        """The answer to a message that is not stored."""
        refusal = make_refusal(request, error)
        return make_answer(request, refusal.code, self.always, remark=refusal.remark)

    def _fields(self, wanted: Wanted, submitted: Submitted, host: str) -> dict[str, str]:
        positions = submitted.positions[wanted.begin : wanted.begin + wanted.drafts]
        fields = {
            "queueId": str(wanted.queue),
            "msgId": _ids(host, positions),
            "queueOffset": str(submitted.offsets[wanted.begin]),
        }
        if wanted.unique_id:
            fields["transactionId"] = wanted.unique_id
        return fields | wanted.fields | self.always

    def host_text(self, peer: Peer) -> str:
        """Our address in message ids, as this peer reaches it."""
        host = self._host_of(peer)
        text = self._hosts.get(host)
        if text is None:
            text = self._hosts[host] = encode_host(host).hex().upper()
        return text


def _ids(host: str, positions: Sequence[int]) -> str:
    """The ids of the messages at these positions."""
    return ",".join(f"{host}{position:016X}" for position in positions)


def _head_of(size: int) -> str:
    """What stands before a JSON header of `size` bytes without a body; kept, because there are few sizes."""
    head = _HEADS[size] = FRAME_HEAD.pack(4 + size, size).decode("latin-1")
    return head
