"""Reading JSON: with orjson where it is installed, else with the standard library."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

try:
    import orjson
except ImportError:
    loads: Callable[[bytes], Any] = json.loads
else:
    loads = orjson.loads
