"""Paths that mean the same wherever tasks run: Spark's executors work in folders of their own."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from embermq.store.settings import StoreSettings


def make_absolute(root: str | Path, settings: StoreSettings | None = None) -> tuple[Path, StoreSettings]:
    """A store's directory and its settings, without paths that depend on the folder one is in."""
    settings = settings or StoreSettings()
    kept = replace(
        settings,
        log_paths=tuple(map(os.path.abspath, settings.log_paths)),
        read_only_log_paths=tuple(map(os.path.abspath, settings.read_only_log_paths)),
    )
    return Path(root).absolute(), kept
