"""Staged batches: messages are kept aside, then published all together, or discarded. See docs/protocol.md."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from embermq.broker.intake import Born, Intake, born_of
from embermq.broker.publishing import Publisher
from embermq.errors import CorruptRecord, IllegalField, IllegalMessage, StoreUnwritable
from embermq.format.command import Command, make_answer
from embermq.format.record import BLANK_SIZE, MIN_RECORD_SIZE, DraftFields
from embermq.format.staged import KeptChunk, iter_staged, keep_drafts
from embermq.format.staged_json import decode_plan, encode_plan
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.staged import Manifest, Plan, check_name
from embermq.rpc.fields import I32, read_integer, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler
from embermq.store.store import Store

if TYPE_CHECKING:
    from embermq.broker.fast_staging import FastStaging

MOST_TASKS: Final = 100_000  # of one batch
_HOSTS_AND_KEY: Final = 128  # more than a record has of these


class StagedHandlers:
    """Answers the requests of those who write batches that are seen whole or not at all."""

    def __init__(self, store: Store, intake: Intake, publisher: Publisher, *, broker_name: str) -> None:
        self._store = store
        self._intake = intake
        self._publisher = publisher
        self._broker_name = broker_name
        self.fast: FastStaging | None = None  # once kernels are in use

    def stage_routes(self) -> dict[int, Handler]:
        """Those whose bodies are messages."""
        return {RequestCode.STAGE_MESSAGES: self.stage, RequestCode.PUBLISH_STAGED: self.publish}

    def routes(self) -> dict[int, Handler]:
        return {RequestCode.DISCARD_STAGED: self.discard, RequestCode.FIND_PUBLISHED: self.find}

    def stage(self, peer: Peer, request: Command) -> Command:
        """Keep one chunk of a task."""
        fields = request.fields
        job, task = _job(request), check_name(read_text(fields, "task"), "task")
        sequence = read_integer(fields, "sequence", limit=I32)
        if zlib.crc32(request.data) != read_integer(fields, "crc"):
            raise IllegalField("crc", "the body is not what was sent; send it again")
        refusal = self._store.state().refusal
        if refusal is not None:
            raise StoreUnwritable(refusal)
        self._publisher.files.append(job, task, sequence, self._keep(request, born_of(peer.peer)))
        return make_answer(request, ResponseCode.SUCCESS)

    async def publish(self, peer: Peer, request: Command) -> Command:
        """Make a batch visible, if it is not."""
        plan = _plan(request)
        batch = _batch(request)
        published = await self._publisher.publish(_job(request), batch, plan, topics=_topics(request))
        fields = {"isNew": "true" if published.is_new else "false"}
        return make_answer(request, ResponseCode.SUCCESS, fields, _same(published.manifest, batch))

    def discard(self, peer: Peer, request: Command) -> Command:
        """Forget what tasks have staged; without a body, what all tasks of the job have."""
        job = _job(request)
        if request.data:
            names = [task.name for task in _plan(request).get(self._broker_name, ())]
        else:
            names = self._publisher.files.find_tasks(job)
        self._publisher.discard(job, names, topics=_topics(request))
        return make_answer(request, ResponseCode.SUCCESS)

    def find(self, peer: Peer, request: Command) -> Command:
        """Tell whether a batch is published, or promised to be, and by which plan."""
        manifest, batch = self._publisher.find(_job(request)), _batch(request)
        if manifest is None:
            return make_answer(request, ResponseCode.SUCCESS, {"state": "none"})
        newest = {"newest": str(manifest.batch)}
        if manifest.batch < batch:
            return make_answer(request, ResponseCode.SUCCESS, {"state": "none", **newest})
        is_done = manifest.is_done or batch < manifest.batch
        state = {"state": "done" if is_done else "intent", **newest}
        return make_answer(request, ResponseCode.SUCCESS, state, _same(manifest, batch))

    def _keep(self, request: Command, born: Born) -> KeptChunk:
        """The messages of a request, checked. Raises a RequestError."""
        self._intake.refresh()
        topic = self._intake.staged_topic(request)
        # What the log could not hold must be refused now: later it is promised.
        limit = self._store.log_files().file_size - BLANK_SIZE - MIN_RECORD_SIZE - _HOSTS_AND_KEY
        if self.fast is not None and (kept := self.fast.keep(topic, request.data, born, size_limit=limit)) is not None:
            return kept
        try:
            drafts = self._intake.staged(request, iter_staged(request.data), born)
        except CorruptRecord as error:
            raise IllegalMessage(f"the body of a staged chunk cannot be read: {error}") from error
        if not drafts:
            raise IllegalMessage("a chunk without messages; leave it out")
        _check_sizes(drafts, limit)
        return keep_drafts(drafts)


def _check_sizes(drafts: list[DraftFields], limit: int) -> None:
    for topic, _, body, properties, *_ in drafts:
        size = len(topic) + len(body) + len(properties)
        if size > limit:
            raise IllegalMessage(
                f"a message of {size} bytes for topic {topic.decode()!r} does not fit into a log file, "
                f"limit {limit}; raise log_file_size"
            )


def _job(request: Command) -> str:
    return check_name(read_text(request.fields, "job"), "job")


def _batch(request: Command) -> int:
    batch = read_integer(request.fields, "batch")
    if batch < 0:
        raise IllegalField("batch", f"{batch}; the number of a batch is 0 or more")
    return batch


def _topics(request: Command) -> set[str]:
    return {name for name in request.fields.get("topics", "").split(";") if name}


def _plan(request: Command) -> Plan:
    """The plan in the body of a request. Raises IllegalField."""
    try:
        plan = decode_plan(request.data)
    except CorruptRecord as error:
        raise IllegalField("plan", f"the body cannot be read: {error}") from error
    tasks = [task for part in plan.values() for task in part]
    if len(tasks) > MOST_TASKS:
        raise IllegalField("plan", f"{len(tasks)} tasks, limit {MOST_TASKS}; write with fewer partitions")
    for task in tasks:
        check_name(task.name, "plan")
    return plan


def _same(manifest: Manifest, batch: int) -> bytes:
    """The plan that a batch is published by; of batches before the newest it is not known any more."""
    return encode_plan(manifest.plan) if manifest.batch == batch else b""
