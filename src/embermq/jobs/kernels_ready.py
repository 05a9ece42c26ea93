"""Whether a job has kernels: loaded before its processes are forked, so that all of them have them."""

from __future__ import annotations

from typing import Final

from embermq.kernels import loading

_PAY_AFTER: Final = 32 << 20  # bytes of the log, which plain code passes in about the time that a load takes
_COMPILING_PAYS_AFTER: Final = 1 << 30


def load_for(size: int) -> bool:
    """Load kernels, if that pays for `size` bytes of the log; whether they are there."""
    if loading.is_loaded():
        return True
    if size < _PAY_AFTER or not loading.is_installed():
        return False
    if size < _COMPILING_PAYS_AFTER and not loading.is_warm():
        return False
    return loading.try_load()
