"""How far a staged batch got into the log before its broker was stopped."""

from __future__ import annotations

import logging
from typing import Final

from embermq.errors import CorruptRecord
from embermq.files.file_chain import FileChain
from embermq.format.record import scan_record
from embermq.log.recovery import find_next_record
from embermq.model.properties import UNIQ_KEY, find_property
from embermq.model.staged import BatchKeys

log = logging.getLogger(__name__)

_UNIQUE: Final = UNIQ_KEY.encode()


def count_published(chain: FileChain, begin: int, end: int, keys: BatchKeys) -> int:
    """How many messages of a batch lie in the log between two positions; they went there in their order."""
    published, position = 0, max(begin, chain.begin)
    while position < end and (data := chain.select_rest(position)) is not None:
        try:
            record = scan_record(data, 0, position, check_body=False)
        except CorruptRecord as damage:
            log.error("damaged record passed over position=%d reason=%s", position, damage.reason)
            position = find_next_record(chain, position + 1)
            continue
        if record is None:  # the end of a file
            position += chain.file_size - position % chain.file_size
            continue
        index = keys.find_index((find_property(record.properties, _UNIQUE) or b"").decode(errors="replace"))
        if index is not None:
            # A delayed message may have been delivered meanwhile, and is then found a second time.
            published = max(published, index + 1)
        position += record.size
    return published
