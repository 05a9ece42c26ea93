"""How kernels are compiled: at import, once, for the arguments they are meant for.

A kernel is a function over plain numbers: addresses and sizes of memory, and tables of 64-bit numbers
(`columns.py`). It is compiled, or loaded from the cache, when its module is imported; no call compiles anything.
While it runs, other threads of Python may run, too. It never raises: it says how far it got, and why it stopped.

numba keeps compiled code until the file that holds the kernel changes, even if a file that this one uses has
changed. So the folder of the cache, NUMBA_CACHE_DIR, is best named after all of them: see `cache_name`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])
Table = npt.NDArray[np.int64]  # rows of 64-bit numbers, each row in one piece
Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]  # as Arrow keeps them


def kernel(signature: str) -> Callable[[Function], Function]:
    """Compile a function for arguments of these types."""
    made = njit(signature, cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
    return cast("Callable[[Function], Function]", made)


def part(function: Function) -> Function:
    """A part of kernels: compiled into those that call it, and only when one of them is compiled."""
    made = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)
    return cast("Function", made(function))


def inlined(function: Function) -> Function:
    """A part that is called in one place: its lines become the kernel's own, which is quicker to run and to compile."""
    made = njit(nogil=True, error_model="numpy", inline="always", no_cpython_wrapper=True, no_cfunc_wrapper=True)
    return cast("Function", made(function))


# For a number that will change: of a constant, numba makes a type of its own, and compiles all that it is handed to
# a second time.
variable = cast("Callable[[int], int]", np.int64)
