"""What a broker has promised of staged batches, one small file a job, replaced whole.

    nothing ─→ intent: on disk before the first message goes to the log ─→ done: once the disk has the last

With an intent, the batch is published, whatever happens: a broker that finds one when it starts goes on where
the log shows that it stopped. Only a job's newest batch is kept; those before it are done.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from embermq.errors import CorruptRecord
from embermq.files.durable import make_directory, replace_file
from embermq.format.staged_json import decode_manifest, encode_manifest
from embermq.model.staged import Manifest
from embermq.store.state import refusal_of

log = logging.getLogger(__name__)

MANIFEST_FILE: Final = "manifest.json"


class StagedManifests:
    """The manifests of all jobs. One thread changes them, a job at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Manifest] = {}
        self._damaged: dict[str, CorruptRecord] = {}
        for path in sorted(root.glob(f"*/{MANIFEST_FILE}")):
            self._load(path)

    def find(self, job: str) -> Manifest | None:
        """The job's newest batch; None if it has none. Raises CorruptRecord if its file cannot be read."""
        if job in self._damaged:
            raise self._damaged[job]
        return self._known.get(job)

    def unfinished(self) -> list[Manifest]:
        """Those whose batch is not published yet."""
        return [manifest for manifest in self._known.values() if not manifest.is_done]

    def save(self, manifest: Manifest) -> None:
        """Keep the manifest; on disk when this returns. Raises a StoreUnwritable."""
        folder = self._root / manifest.job
        try:
            make_directory(folder)
            replace_file(folder / MANIFEST_FILE, encode_manifest(manifest))
        except OSError as error:
            raise refusal_of(error, folder) from error
        self._known[manifest.job] = manifest

    def expire(self, older_than_ms: int) -> int:
        """Forget jobs whose last batch was done before this time; how many went."""
        expired = 0
        for job, manifest in list(self._known.items()):
            path = self._root / job / MANIFEST_FILE
            if manifest.is_done and path.stat().st_mtime_ns // 1_000_000 < older_than_ms:
                path.unlink()
                del self._known[job]
                expired += 1
        return expired

    def _load(self, path: Path) -> None:
        try:
            manifest = decode_manifest(path.read_bytes())
            if manifest.job != path.parent.name:
                raise CorruptRecord(0, f"the manifest is of job {manifest.job[:100]!r}")
        except CorruptRecord as error:
            log.error(
                "manifest unreadable file=%s reason=%s; the job publishes nothing until it is restored", path, error
            )
            self._damaged[path.parent.name] = CorruptRecord(error.position, f"{path}: {error.reason}; restore it")
        else:
            self._known[manifest.job] = manifest
