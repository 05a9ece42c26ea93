"""What is known of plain SENDs on their way through the kernels: one row of 64-bit numbers a frame.

`parse_sends` fills a row up to BODY_SIZE. The columns after it belong to those who store the message:
the number of its topic, and where it went. `write_answers` reads all of them. The messages of a frame, one or a
batch of them, are drafts side by side.

    source    what was received; TOPIC_AT and BODY_AT count from its first byte
    scratch   properties as they are stored, without escapes, and what was made of them; PROPERTIES_AT, UNIQUE_AT and
              ASKED count from its first byte
"""

from __future__ import annotations

from typing import Final

import numpy as np

OPAQUE: Final = 0
QUEUE: Final = 1
SYS_FLAG: Final = 2  # only the bits that a client may set
BORN_TIME: Final = 3
FLAG: Final = 4
ONEWAY: Final = 5  # 1 if no answer is wanted
FORM: Final = 6  # of the header, and so of the answer
TOPIC_AT: Final = 7
TOPIC_SIZE: Final = 8
PROPERTIES_AT: Final = 9
PROPERTIES_SIZE: Final = 10
UNIQUE_AT: Final = 11
UNIQUE_SIZE: Final = 12
BODY_AT: Final = 13
BODY_SIZE: Final = 14
TOPIC: Final = 15
QUEUE_OFFSET: Final = 16
POSITION: Final = 17  # of the first message
FIRST_DRAFT: Final = 18
DRAFTS: Final = 19  # 0 for a batch whose messages are not counted yet
ASKS: Final = 20  # for what, besides storing
ASKED: Final = 21  # a time or a delay in ms, or where the producer group lies; of a draft, where its handle lies
ASKED_SIZE: Final = 22  # of the group or the handle

COLUMNS: Final = 23
ASKS_NOTHING, ASKS_TIME, ASKS_COMMIT, ASKS_DELAY = range(4)  # a draft for later has a time
ROW_SIZE: Final = COLUMNS * 8


class SendRows:
    """Memory for rows and their properties, used again and again."""

    def __init__(self, capacity: int, scratch_size: int) -> None:
        self.capacity = capacity
        self.scratch_size = scratch_size
        self.rows = np.zeros((capacity, COLUMNS), np.int64)
        self.scratch = np.zeros(max(scratch_size, 1), np.uint8)
        # As plain numbers: numpy's are slow to hand over, and uint64 beside int64 turns into float64 in a kernel.
        self.rows_address = int(self.rows.ctypes.data)
        self.scratch_address = int(self.scratch.ctypes.data)
