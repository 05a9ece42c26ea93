"""The only file that knows how Spark's versions differ. 4.3 is what everything is tested with."""

from __future__ import annotations

from typing import Final

import pyspark

from embermq.errors import SettingsError

OLDEST: Final = (4, 1)  # the first whose streams can be written in Arrow batches


def check_version(version: str = pyspark.__version__) -> None:
    """Raise SettingsError if this PySpark is too old."""
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if found < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise SettingsError(f"PySpark {version} is too old, {wanted} or newer is wanted; pip install 'embermq[spark]'")
