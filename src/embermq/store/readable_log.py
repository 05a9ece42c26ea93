"""What of the log can be read, where kernels find it, as it grows.

Files that were deleted stay mapped, and on the disk, until the next `refresh` or `forget`. For one thread.

This module imports kernels: to be imported once kernels are loaded.
"""

from __future__ import annotations

from embermq.files.file_chain import FileChain
from embermq.files.mapped_file import MappedFile
from embermq.kernels.gather import LogFiles
from embermq.kernels.memory import address_of


class ReadableLog:
    """Follows a FileChain. What `files` tells is good until the next `refresh` or `forget`."""

    def __init__(self, chain: FileChain) -> None:
        self._chain = chain
        self.forget()

    def refresh(self) -> None:
        """Know what the chain has now."""
        known = self._chain.files
        if known is not self._known:
            self._use(known)
        for number, file in self._growing:
            self.files.set_size(number, file.committed)

    def forget(self) -> None:
        """Keep no file."""
        self._use(())

    def _use(self, known: tuple[MappedFile, ...]) -> None:
        self._known = known
        self._views = [file.view for file in known]  # keeps them mapped
        rows = [
            (file.start, min(file.committed, len(view)), address_of(view) if view else 0)
            for file, view in zip(known, self._views, strict=True)
        ]
        self.files = LogFiles(rows)
        self._growing = [
            (number, file)
            for number, (file, (_, size, address)) in enumerate(zip(known, rows, strict=True))
            if address and size < file.size
        ]
