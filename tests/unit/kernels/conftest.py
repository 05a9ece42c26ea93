"""Where the kernels under test are kept when compiled: in a folder that a change of any kernel leaves behind."""

from __future__ import annotations

import os
from pathlib import Path

from embermq.kernels.cache_name import cache_name

# Before any test module imports a kernel, and with it numba, which reads this once.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[3] / ".cache" / cache_name()))
