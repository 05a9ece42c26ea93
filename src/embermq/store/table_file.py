"""The files of a store's small tables, each saved whole, with the one before it as its backup."""

from __future__ import annotations

from pathlib import Path

from embermq.files.durable import make_directory, replace_file
from embermq.store.state import refusal_of


def save_table(path: Path, data: bytes) -> None:
    """Replace the table at `path`; on disk when this returns. Raises StoreUnwritable."""
    try:
        make_directory(path.parent)
        replace_file(path, data, keep_backup=True)
    except OSError as error:
        raise refusal_of(error, path) from error
