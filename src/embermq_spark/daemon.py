"""Spark's Python daemon, from which workers are forked, with everything imported before the first fork.

After each task Spark has the garbage collector look at all objects; frozen, what was imported is passed over.
Chosen by the setting `spark.python.daemon.module`. Spark starts other daemons that only plan: those are not warmed.
"""

from __future__ import annotations

import gc
import importlib
import sys
import traceback
from typing import Final

from pyspark.daemon import manager

WORKER: Final = "pyspark.worker"
IMPORTED: Final = (
    "numpy",
    "pandas",
    "pyarrow",
    "pyarrow.compute",
    WORKER,
    "embermq_spark.source",
    "embermq_spark.pieces",
    "embermq_spark.sink",
)


def warm() -> None:
    """Import what tasks use. A task that needs what cannot be imported fails by itself, and says why."""
    for name in IMPORTED:
        try:
            importlib.import_module(name)
        except ImportError:
            traceback.print_exc(file=sys.stderr)  # what goes to stdout is read by Spark
    _load_kernels()
    gc.collect()
    gc.freeze()


def _load_kernels() -> None:
    """Have the compiled code of scans in memory, if there is any yet, so that workers begin with it."""
    try:
        from embermq.scan.engine import choose_engine
    except ImportError:
        return  # told above
    choose_engine(lambda topic: True)


if __name__ == "__main__":
    if sys.argv[-1].endswith(WORKER):
        warm()
    manager()
