"""The hot part of a scan: records of log memory as columns, properties taken apart, bytes gathered into Arrow's arrays.

There are two engines that give the same: one compiled (`compiled_engine.py`), where numba is and its code is warm, and
one of numpy and Arrow (`numpy_engine.py`). What neither likes, a record at the end of the memory or a damaged one,
they stop at, and plain code looks at it.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from embermq.kernels import loading
from embermq.scan.topic_numbers import TopicNumbers

Numbers: TypeAlias = npt.NDArray[np.int64]
MOST_ROWS: Final = 30_000  # found at once; no power of two, or all columns would share one place in caches


class Looked(NamedTuple):
    """What was found in a piece of the log."""

    rows: Numbers  # columns of kernels.columns.ROW_…, one row of the array for each
    end: int  # the byte that it came to; for records at given places, where the one is that it stopped at
    seen: int  # records that it looked at
    goes_on: bool  # whether another look from there may find more; else plain code must look


class Times(NamedTuple):
    """Store times [begin, end), in ms."""

    begin: int = -(2**63)
    end: int = 2**63 - 1


class Taken(NamedTuple):
    """Properties of records, taken apart: see kernels.columns.VALUE_… and PAIR_…."""

    texts: int  # records whose properties are text, up to the first whose are not
    values: Numbers
    ends: npt.NDArray[np.int32]  # how many pairs there were up to each record
    pairs: Numbers


class Engine(Protocol):
    """One way to do it. For one thread. What `find` gave is good until the next time."""

    topics: TopicNumbers

    def find(
        self,
        data: memoryview,
        position: int,
        *,
        stop: int = -1,
        places: Numbers | None = None,
        times: Times,
        check_body: bool,
        with_rest: bool = True,
    ) -> Looked:
        """The records of `data`, cut from log `position`, that begin before byte `stop`; or those at `places`.

        Only wanted topics and times are among them, and `check_body` is for these alone. Without `with_rest`, the
        columns from ROW_PREPARED_POSITION on hold nothing.
        """
        ...

    def take_apart(self, data: memoryview, places: Numbers, sizes: Numbers, *, with_pairs: bool) -> Taken:
        """The properties at these places."""
        ...

    def gather(self, data: memoryview, places: Numbers, sizes: Numbers, kind: pa.DataType) -> pa.Array:
        """The bytes at rising places, as strings or binary; null where a size is negative. Nothing is checked."""
        ...


def has_kernels() -> bool:
    """Whether compiled code is loaded, or can be at once; then it is."""
    return loading.is_loaded() or (loading.is_warm() and loading.try_load())


def choose_engine(accepts_topic: Callable[[str], bool]) -> Engine:
    """The compiled engine if there are kernels; else the one of numpy."""
    if has_kernels():
        from embermq.scan.compiled_engine import CompiledEngine

        return CompiledEngine(accepts_topic)
    from embermq.scan.numpy_engine import NumpyEngine

    return NumpyEngine(accepts_topic)
