"""Modules that need Spark, found by name: nothing of embermq imports them."""

from __future__ import annotations

import importlib
from typing import Any

from embermq.errors import SettingsError


def import_spark_module(name: str, *, what: str) -> Any:
    """The module `name` of `embermq_spark`. Raises SettingsError without PySpark; `what` is what needs it."""
    try:
        return importlib.import_module(f"embermq_spark.{name}")
    except ImportError as error:
        raise SettingsError(f"{what} PySpark ({error}); pip install 'embermq[spark]'") from error
