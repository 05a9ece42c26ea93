"""SEND: all messages that one read brought go to the store together, and are answered together."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from embermq.broker.intake import Born, Intake, Sent
from embermq.broker.membership import Membership
from embermq.broker.puts import Puts
from embermq.broker.settings import BrokerSettings
from embermq.broker.statistics import BrokerStatistics
from embermq.errors import EmberError, FlushTimeout, RequestError
from embermq.format.command import VERSION, Command, encode_command, make_answer
from embermq.format.frame import JSON_FORM, encode_frame
from embermq.format.host import HOST_V6_SIZE, encode_host
from embermq.format.record import DraftFields
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.flags import SysFlag
from embermq.model.message import Host
from embermq.model.properties import MSG_REGION, REPLY_TO_CLIENT, TRACE_ON, find_property
from embermq.rpc.outcome import make_refusal
from embermq.rpc.peer import Peer
from embermq.rpc.router import Observe
from embermq.store.writer import Submitted

log = logging.getLogger(__name__)

CODES: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
_REPLY_TO: Final = REPLY_TO_CLIENT.encode()


class _Wanted(NamedTuple):
    """An answer that waits for the store: whose, and to which drafts."""

    request: Command
    begin: int
    drafts: int
    queue: int
    unique_id: str
    fields: dict[str, str]


class SendHandlers:
    """Answers SEND requests, all of one read at a time."""

    def __init__(
        self,
        intake: Intake,
        puts: Puts,
        membership: Membership,
        statistics: BrokerStatistics,
        settings: BrokerSettings,
        *,
        host_of: Callable[[Peer], Host],
        observe: Observe,
        now: Callable[[], float],
    ) -> None:
        self._intake = intake
        self._puts = puts
        self._membership = membership
        self._statistics = statistics
        self._host_of = host_of
        self._observe = observe
        self._now = now
        self._always = {MSG_REGION: settings.region, TRACE_ON: "true"}
        region = json.dumps(settings.region).replace("%", "%%")
        self._template = (
            '{"code":0,"extFields":{"queueId":"%d","transactionId":"%b","msgId":"%b%016X","TRACE_ON":"true",'
            f'"MSG_REGION":{region},'
            '"queueOffset":"%d"},"flag":1,"language":"PYTHON","opaque":%d,"serializeTypeCurrentRPC":"JSON",'
            f'"version":{VERSION}}}'
        ).encode()
        self._born: dict[Host, Born] = {}
        self._hosts: dict[Host, bytes] = {}

    def receive(self, peer: Peer, requests: Sequence[Command]) -> None:
        """Store the messages of `requests`; each is answered when it is safe."""
        born = self._born_of(peer)
        drafts: list[DraftFields] = []
        wanted: list[_Wanted] = []
        self._intake.refresh()
        plain = self._intake.plain
        for request in requests:
            found = plain(request, born)
            if found is not None:
                draft, queue, unique_id = found
                wanted.append(_Wanted(request, len(drafts), 1, queue, unique_id, {}))
                drafts.append(draft)
                continue
            try:
                sent = self._intake.careful(request, born)
            except Exception as error:
                self._refuse(peer, request, error)
                continue
            if sent.is_batch:  # its records lie side by side, so it is put by itself, behind what came before
                self._put(peer, drafts, wanted)
                drafts, wanted = [], []
                self._put(peer, sent.drafts, [_wanted(request, 0, sent)], together=True)
            else:
                self._note_requester(peer, sent)
                wanted.append(_wanted(request, len(drafts), sent))
                drafts.extend(sent.drafts)
        self._put(peer, drafts, wanted)

    def _put(
        self, peer: Peer, drafts: Sequence[DraftFields], wanted: Sequence[_Wanted], *, together: bool = False
    ) -> None:
        if not wanted:
            return
        began = self._now()
        peer.owe(len(wanted))

        def done(submitted: Submitted | None, error: Exception | None) -> None:
            peer.settle(len(wanted))
            if submitted is not None:
                self._answer(peer, drafts, wanted, submitted, error, self._now() - began)
            elif isinstance(error, RequestError) and len(wanted) > 1:  # one of them is to blame; the others are not
                for each in wanted:
                    own = drafts[each.begin : each.begin + each.drafts]
                    self._put(peer, own, [each._replace(begin=0)], together=together)
            else:
                for each in wanted:
                    self._refuse(peer, each.request, error or AssertionError("neither stored nor refused"))

        self._puts.submit(drafts, done, together=together)

    def _answer(
        self,
        peer: Peer,
        drafts: Sequence[DraftFields],
        wanted: Sequence[_Wanted],
        submitted: Submitted,
        error: Exception | None,
        seconds: float,
    ) -> None:
        host = self._host(peer)
        answers = [
            self._stored(each, submitted, host) if error is None else self._stored_but(each, submitted, host, error)
            for each in wanted
            if not each.request.flag & 2
        ]
        if answers:
            peer.write(b"".join(answers))
        self._count(drafts, submitted, seconds * 1000)
        self._observe(RequestCode.SEND_MESSAGE_V2, ResponseCode.SUCCESS, seconds)

    def _stored(self, wanted: _Wanted, submitted: Submitted, host: bytes) -> bytes:
        """The frame that says where a message is."""
        request, begin, count, queue, unique_id, _ = wanted
        if request.form == JSON_FORM and count == 1 and unique_id.isascii() and unique_id.isalnum():
            position, offset = submitted.positions[begin], submitted.offsets[begin]
            unique = unique_id.encode()
            header = self._template % (queue, unique, host, position, offset, request.opaque)
            return encode_frame(JSON_FORM, header, 0)
        return encode_command(make_answer(request, ResponseCode.SUCCESS, self._fields(wanted, submitted, host)))

    def _stored_but(self, wanted: _Wanted, submitted: Submitted, host: bytes, error: Exception) -> bytes:
        """Stored, but the disk has not confirmed it: the answer tells both."""
        assert isinstance(error, FlushTimeout)
        fields = self._fields(wanted, submitted, host)
        answer = make_answer(wanted.request, ResponseCode.FLUSH_DISK_TIMEOUT, fields, remark=str(error))
        return encode_command(answer)

    def _fields(self, wanted: _Wanted, submitted: Submitted, host: bytes) -> dict[str, str]:
        text = host.decode()
        positions = submitted.positions[wanted.begin : wanted.begin + wanted.drafts]
        fields = {
            "queueId": str(wanted.queue),
            "msgId": ",".join(f"{text}{position:016X}" for position in positions),
            "queueOffset": str(submitted.offsets[wanted.begin]),
        }
        if wanted.unique_id:
            fields["transactionId"] = wanted.unique_id
        return fields | wanted.fields | self._always

    def _refuse(self, peer: Peer, request: Command, error: Exception) -> None:
        if not isinstance(error, EmberError):
            log.error("send failed peer=%s fields=%s", peer.peer, dict(request.fields), exc_info=error)
        refusal = make_refusal(request, error)
        self._observe(request.code, refusal.code, 0.0)
        if not request.is_oneway:
            peer.send(make_answer(request, refusal.code, self._always, remark=refusal.remark))

    def _count(self, drafts: Sequence[DraftFields], submitted: Submitted, milliseconds: float) -> None:
        counts: dict[tuple[bytes, int], list[int]] = {}
        for draft, size in zip(drafts, submitted.sizes, strict=True):
            each = counts.get((draft[0], draft[1]))
            if each is None:
                counts[draft[0], draft[1]] = [1, size]
            else:
                each[0] += 1
                each[1] += size
        for (topic, queue), (count, size) in counts.items():
            self._statistics.count_put(topic.decode(), queue, count, size)
            self._statistics.count_put_time(topic.decode(), queue, int(milliseconds))

    def _note_requester(self, peer: Peer, sent: Sent) -> None:
        """Remember whom the reply to this message goes to: its heartbeat may come later than the reply."""
        client = find_property(sent.drafts[0][3], _REPLY_TO)
        if client:
            self._membership.note_requester(client.decode(errors="replace"), peer)

    def _born_of(self, peer: Peer) -> Born:
        born = self._born.get(peer.peer)
        if born is None:
            if len(self._born) > 10_000:
                self._born.clear()
            host = encode_host(peer.peer)
            born = self._born[peer.peer] = Born(host, SysFlag.BORN_HOST_V6 if len(host) == HOST_V6_SIZE else 0)
        return born

    def _host(self, peer: Peer) -> bytes:
        """Our address in message ids, as this peer reaches it."""
        host = self._host_of(peer)
        text = self._hosts.get(host)
        if text is None:
            text = self._hosts[host] = encode_host(host).hex().upper().encode()
        return text


def _wanted(request: Command, begin: int, sent: Sent) -> _Wanted:
    fields = {"batchUniqId": sent.unique_id} if sent.is_one_record else {}
    return _Wanted(request, begin, len(sent.drafts), sent.queue, sent.unique_id, fields)
