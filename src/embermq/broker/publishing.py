"""Publishes staged batches: each message once, in order, whatever happens to the broker meanwhile.

    check, sync what is staged ─→ intent on disk ─→ messages to the log ─→ the disk has them ─→ done on disk ─→ forget

Before the intent nothing of the batch can be seen, and nothing is promised. After it, everything will be: a put that
is refused for now is tried again, and a broker that starts looks in its log how far the one before it got.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

from embermq.broker.puts import Puts
from embermq.broker.settings import BrokerSettings
from embermq.broker.statistics import BrokerStatistics
from embermq.clock import Clock
from embermq.errors import FlushTimeout, IllegalField, NotPermitted, StoreUnwritable, SyncFailed
from embermq.format.message_id import month_ms
from embermq.format.record import DraftFields
from embermq.format.staged import Chunk, decode_chunk
from embermq.model.properties import UNIQ_KEY
from embermq.model.staged import LARGEST_INDEX, BatchKeys, Manifest, Plan
from embermq.store.staged_files import STAGED_FOLDER, StagedFiles
from embermq.store.staged_manifests import StagedManifests
from embermq.store.staged_progress import count_published
from embermq.store.store import Store

if TYPE_CHECKING:
    from embermq.broker.fast_staging import FastStaging, StagedTable

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 1000  # messages of one put
MOST_BYTES: Final = 4 * 1024 * 1024
RETRY_S: Final = 0.5
HOUR_MS: Final = 3_600_000


class Published(NamedTuple):
    """A batch that is published."""

    manifest: Manifest
    is_new: bool  # not published before


class Publisher:
    """Staged messages and their way into the store. All of it runs in the event loop."""

    def __init__(
        self,
        store: Store,
        puts: Puts,
        statistics: BrokerStatistics,
        *,
        settings: Callable[[], BrokerSettings],
        clock: Clock,
    ) -> None:
        root = store.path / STAGED_FOLDER
        self.files = StagedFiles(root, max_bytes=lambda: settings().staged_max_bytes)
        self._manifests = StagedManifests(root)
        self._store = store
        self._puts = puts
        self._statistics = statistics
        self._settings = settings
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of jobs, while they are used
        self._tasks: dict[str, asyncio.Task[None]] = {}  # batches on their way, by job
        self.fast: FastStaging | None = None  # once kernels are in use

    def start(self) -> None:
        """Go on with what the last broker had promised; call it in the event loop."""
        end = self._store.log_files().end
        for manifest in self._manifests.unfinished():
            log.info("staged batch goes on job=%s batch=%d", manifest.job, manifest.batch)
            self._begin(manifest, log_end=end)

    async def stop(self) -> None:
        """Leave batches as they are; the next start goes on with them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def find(self, job: str) -> Manifest | None:
        """The newest batch of a job that was promised."""
        return self._manifests.find(job)

    async def publish(self, job: str, batch: int, plan: Plan, *, topics: set[str]) -> Published:
        """Make a batch visible, once; returns when the disk has it.

        `topics` are those that the asker may write to. Raises StagedMissing, NotPermitted, and a StoreUnwritable.
        """
        lock = self._locks.setdefault(job, asyncio.Lock())
        async with lock:
            await self._finish(job)
            manifest = self._manifests.find(job)
            if manifest is not None and batch <= manifest.batch:
                return Published(manifest, is_new=False)
            manifest = await self._promise(job, batch, plan, topics)
            self._begin(manifest)
            await asyncio.shield(self._tasks[job])
            return Published(replace(manifest, is_done=True), is_new=True)

    def discard(self, job: str, tasks: list[str], *, topics: set[str]) -> None:
        """Forget what tasks staged, unless their batch is promised. Raises NotPermitted."""
        promised = self._promised(job)
        for task in tasks:
            _check_topics(self.files.find_topics(job, task), topics)
        self.files.discard(job, [task for task in tasks if task not in promised])

    def expire(self) -> None:
        """Forget what nobody published in time, and jobs that ended long ago."""
        settings, now = self._settings(), self._clock.now_ms()
        staged = self.files.expire(now - int(settings.staged_expire_hours * HOUR_MS), kept=self._promised)
        jobs = self._manifests.expire(now - int(settings.published_keep_hours * HOUR_MS))
        if staged or jobs:
            log.info("staged messages expired tasks=%d jobs=%d", staged, jobs)

    async def _finish(self, job: str) -> None:
        """Wait for the batch of a job that was promised before."""
        manifest = self._manifests.find(job)
        if manifest is not None and not manifest.is_done and job not in self._tasks:  # it failed; once more
            self._begin(manifest, log_end=self._store.log_files().end)
        if job in self._tasks:
            await asyncio.shield(self._tasks[job])

    async def _promise(self, job: str, batch: int, plan: Plan, topics: set[str]) -> Manifest:
        """Make sure that all is there, and promise to publish it."""
        named = plan.get(self._settings().name, ())
        _check_topics(self.files.check(job, named), topics)
        tasks = tuple(task for task in named if task.messages)
        if sum(task.messages for task in tasks) >= LARGEST_INDEX:
            raise IllegalField("plan", f"a batch of {LARGEST_INDEX} messages or more; write smaller ones")
        if tasks:
            await asyncio.to_thread(self.files.sync, job, tasks)
        manifest = Manifest(
            job,
            batch,
            is_done=False,
            position=self._store.log_files().end,
            month_ms=month_ms(self._clock.now_ms()),
            tasks=tasks,
            plan=plan,
        )
        await asyncio.to_thread(self._manifests.save, manifest)
        return manifest

    def _begin(self, manifest: Manifest, *, log_end: int | None = None) -> None:
        task = asyncio.get_running_loop().create_task(self._complete(manifest, log_end))
        self._tasks[manifest.job] = task
        task.add_done_callback(lambda done: self._ended(manifest, done))

    def _ended(self, manifest: Manifest, task: asyncio.Task[None]) -> None:
        del self._tasks[manifest.job]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("staged batch stopped job=%s batch=%d reason=%s", manifest.job, manifest.batch, error)

    async def _complete(self, manifest: Manifest, log_end: int | None) -> None:
        """Bring a promised batch to its end. With `log_end`, part of it may lie in the log before that."""
        keys = BatchKeys(manifest.job, manifest.batch, manifest.month_ms)
        index = 0
        if log_end is not None:
            await self._wait_for_disk(log_end)  # what is in write buffers cannot be read
            chain = self._store.log_files()
            index = await asyncio.to_thread(count_published, chain, manifest.position, log_end, keys)
        end = await self._put_from(index, manifest, keys)
        await self._wait_for_disk(end)
        done = replace(manifest, is_done=True)
        await asyncio.to_thread(self._manifests.save, done)
        # What else the job has staged is left over from tries that failed: it writes one batch at a time.
        self.files.discard(manifest.job, self.files.find_tasks(manifest.job))
        log.info("staged batch published job=%s batch=%d from=%d", manifest.job, manifest.batch, index)

    async def _put_from(self, begin: int, manifest: Manifest, keys: BatchKeys) -> int:
        """Put the messages of a batch from this one on; where the log ends behind them."""
        index, end = 0, self._store.log_files().end
        for task in manifest.tasks:
            if index + task.messages <= begin:
                index += task.messages
                continue
            for chunk, data in self.files.iter_chunks(manifest.job, task.name):
                left = chunk.messages - max(begin - index, 0)
                if left > 0:
                    end = await self._put_chunk(chunk, data, keys, index, left)
                index += chunk.messages
        return end

    async def _put_chunk(self, chunk: Chunk, data: memoryview, keys: BatchKeys, index: int, left: int) -> int:
        """Put the last `left` messages of a chunk, whose first has this number; where the log ends behind them."""
        skipped = chunk.messages - left
        if self.fast is not None and (staged := self.fast.draft(data, chunk.messages, keys, index)) is not None:
            return await self._put_table(self.fast, staged.behind(skipped))
        drafts = decode_chunk(chunk, data)[skipped:]
        keyed = [_with_key(draft, keys.key(index + skipped + number)) for number, draft in enumerate(drafts)]
        end = 0
        for slice_ in _slices(keyed):
            end = await self._put(slice_)
        return end

    async def _put_table(self, fast: FastStaging, staged: StagedTable) -> int:
        """The same for drafts in memory. It waits for the disk only where that is far behind."""
        while True:
            await self._wait_for_room()
            try:
                appended = fast.submit(staged)
            except SyncFailed:
                raise
            except StoreUnwritable as error:
                refusal: Exception | None = error
            else:
                refusal, staged = appended.error, staged.behind(len(appended.records))
                if refusal is None:
                    return appended.pieces[-1].end
                if isinstance(refusal, SyncFailed) or not isinstance(refusal, StoreUnwritable):
                    raise refusal
            log.warning("staged messages wait reason=%s", refusal)
            await asyncio.sleep(RETRY_S)

    async def _wait_for_room(self) -> None:
        """Let others have their turn, and wait while so much waits for the disk that puts had better wait, too."""
        await asyncio.sleep(0)
        while not self._puts.is_free:
            if self._store.failure is not None:
                raise self._store.failure
            await self._wait_for_disk(self._store.log_files().end)

    async def _put(self, drafts: list[DraftFields]) -> int:
        """Put drafts, waiting as long as the store refuses them for now."""
        while True:
            try:
                submitted = await self._puts.put(drafts)
            except SyncFailed:
                raise  # they may be in the log: only the next start can tell
            except StoreUnwritable as error:
                log.warning("staged messages wait reason=%s", error)
                await asyncio.sleep(RETRY_S)
            else:
                self._count(drafts, submitted.sizes)
                return submitted.end

    def _count(self, drafts: list[DraftFields], sizes: Sequence[int]) -> None:
        put: dict[tuple[bytes, int], list[int]] = {}
        for draft, size in zip(drafts, sizes, strict=True):
            put.setdefault(draft[:2], []).append(size)
        for (topic, queue), each in put.items():
            self._statistics.count_put(topic.decode(), queue, len(each), sum(each))

    async def _wait_for_disk(self, end: int) -> None:
        while True:
            try:
                await asyncio.to_thread(self._store.wait_for_disk, end)
            except FlushTimeout as error:
                log.warning("staged messages wait reason=%s", error)
            else:
                return

    def _promised(self, job: str) -> set[str]:
        """The tasks of a job that are on their way."""
        manifest = self._manifests.find(job)
        return set() if manifest is None or manifest.is_done else {task.name for task in manifest.tasks}


def _with_key(draft: DraftFields, key: str) -> DraftFields:
    topic, queue, body, properties, *rest = draft
    return (topic, queue, body, properties + f"{UNIQ_KEY}\x01{key}\x02".encode(), *rest)  # type: ignore[return-value]


def _slices(drafts: list[DraftFields]) -> list[list[DraftFields]]:
    """Drafts as they are put: so many and so large at most, one at least."""
    slices: list[list[DraftFields]] = []
    size = MOST_BYTES
    for draft in drafts:
        size += len(draft[2]) + len(draft[3])
        if size > MOST_BYTES or len(slices[-1]) == MOST_AT_ONCE:
            slices.append([])
            size = len(draft[2]) + len(draft[3])
        slices[-1].append(draft)
    return slices


def _check_topics(found: set[bytes], allowed: set[str]) -> None:
    """Raise NotPermitted for what is staged for other topics than those that the asker named, and may write to."""
    others = {topic.decode() for topic in found} - allowed
    if others:
        raise NotPermitted(f"messages for topic {min(others)!r} are staged, too; name all topics of the batch")
