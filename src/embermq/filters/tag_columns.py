"""Tags of a batch of messages against those that are wanted. Only loaded where pyarrow is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from embermq.filters.property_table import Mask, PropertyTable
from embermq.model.properties import TAGS
from embermq.model.subscription import TagFilter


def wanted_rows(wanted: TagFilter, table: PropertyTable) -> Mask:
    """Whether each message has one of the wanted tags."""
    if not wanted.tags:
        return pa.array(np.ones(table.count, np.bool_))
    tags = table.column(TAGS)
    return pc.is_in(tags, value_set=pa.array(sorted(wanted.tags), tags.type))
