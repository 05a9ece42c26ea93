"""A column of truths in Arrow becomes one in numpy. Only loaded where pyarrow is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


def flags_of(column: pa.BooleanArray | pa.BooleanScalar) -> NDArray[np.bool_]:
    """Where the column is true; null is not."""
    if isinstance(column, pa.Scalar):
        return np.array(column.as_py() is True)
    flags: NDArray[np.bool_] = column.fill_null(False).to_numpy(zero_copy_only=False)
    return flags
