"""The only file that knows how Spark's versions differ. 4.3 is what everything is tested with."""

from __future__ import annotations

import sys
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import pyspark

from embermq.errors import SettingsError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

OLDEST: Final = (4, 1)  # the first whose streams can be written in Arrow batches
OLDEST_FOR_STREAMS: Final = (4, 2)  # the first that tells a stream's reader where a batch begins
_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def check_version(version: str = pyspark.__version__, *, oldest: tuple[int, int] = OLDEST) -> None:
    """Raise SettingsError if this PySpark is too old."""
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if found < oldest:
        wanted = ".".join(map(str, oldest))
        raise SettingsError(f"PySpark {version} is too old, {wanted} or newer is wanted; pip install 'embermq[spark]'")


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects batches of these columns in; its times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **wanted)  # 4.1 has UTC always


def pushes_filters() -> bool:
    """Whether this process was started to push filters down.

    Elsewhere Spark refuses every reader that takes filters, unless a setting that is off by default is on.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == _PUSHDOWN_WORKER)
