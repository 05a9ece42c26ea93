"""The numbers that kernels and their callers share: what stands in the columns of a table, and why a kernel stopped.

A table has one row for each draft, record, run or key, and 64-bit numbers in all columns. `…_AT` counts bytes from
the beginning of the memory that the table belongs to: the source of drafts, the log memory of records.
"""

from __future__ import annotations

from typing import Final

# A draft: a message that has no place in the log yet. Topic and born host are numbers of rows of a ByteTable.
(
    DRAFT_BODY_AT, DRAFT_BODY_SIZE, DRAFT_PROPERTIES_AT, DRAFT_PROPERTIES_SIZE, DRAFT_TOPIC, DRAFT_QUEUE, DRAFT_FLAG,
    DRAFT_SYS_FLAG, DRAFT_BORN_TIME, DRAFT_BORN_HOST, DRAFT_OFFSET, DRAFT_RECONSUME_TIMES, DRAFT_PREPARED_POSITION,
) = range(13)  # fmt: skip
DRAFT_WIDTH: Final = 13

# A record that has its place, in log memory.
(
    RECORD_POSITION, RECORD_SIZE, RECORD_TOPIC_AT, RECORD_TOPIC_SIZE, RECORD_QUEUE, RECORD_OFFSET, RECORD_SYS_FLAG,
    RECORD_STORE_TIME, RECORD_BODY_AT, RECORD_BODY_SIZE, RECORD_PROPERTIES_AT, RECORD_PROPERTIES_SIZE,
    RECORD_PREPARED_POSITION,
) = range(13)  # fmt: skip
RECORD_WIDTH: Final = 13

# A record as columns: this table has a row for each of them, so that a column lies in one piece. `_AT` counts bytes
# from the beginning of the log memory. A host is its first 8 bytes; where it has 20, they are found at the record.
(
    ROW_AT, ROW_SIZE, ROW_TOPIC, ROW_QUEUE, ROW_OFFSET, ROW_SYS_FLAG, ROW_STORE_TIME, ROW_BODY_AT, ROW_BODY_SIZE,
    ROW_PROPERTIES_AT, ROW_PROPERTIES_SIZE, ROW_PREPARED_POSITION, ROW_FLAG, ROW_BODY_CRC, ROW_BORN_TIME,
    ROW_BORN_HOST, ROW_STORE_HOST, ROW_RECONSUME_TIMES,
) = range(18)  # fmt: skip
ROW_WIDTH: Final = 18

# Properties taken apart, in a table of the same kind: names and values in the order they stand in.
PAIR_NAME_AT, PAIR_NAME_SIZE, PAIR_VALUE_AT, PAIR_VALUE_SIZE = range(4)
PAIR_WIDTH: Final = 4

# The values of three properties of a record; a size of -1 means that it has none.
VALUE_TAGS_AT, VALUE_TAGS_SIZE, VALUE_KEYS_AT, VALUE_KEYS_SIZE, VALUE_UNIQUE_AT, VALUE_UNIQUE_SIZE = range(6)
VALUE_WIDTH: Final = 6

# A run: entries of one queue, from an offset on without a gap. Its entries are [begin, begin + count) of all.
RUN_TOPIC_AT, RUN_TOPIC_SIZE, RUN_QUEUE, RUN_OFFSET, RUN_BEGIN, RUN_COUNT = range(6)
RUN_WIDTH: Final = 6

# A key of a record, as the index files it.
KEY_HASH, KEY_POSITION, KEY_STORE_TIME = range(3)
KEY_WIDTH: Final = 3

# A message with keys, as compaction keeps it: of its keys the digest, in two numbers.
(
    KEYED_HIGH, KEYED_LOW, KEYED_OFFSET, KEYED_POSITION, KEYED_SIZE, KEYED_TRAITS, KEYED_CODE, KEYED_STORE_TIME,
) = range(8)  # fmt: skip
KEYED_WIDTH: Final = 8

# A queue, as plain code and kernels share it: see log/queue_table.py.
(
    QUEUE_NEXT, QUEUE_PUTS, QUEUE_PUT_SIZE, QUEUE_END, QUEUE_MEMORY, QUEUE_FIRST, QUEUE_LIMIT, QUEUE_WRITTEN,
) = range(8)  # fmt: skip
QUEUE_WIDTH: Final = 8

# A row of a ByteTable.
BYTES_ADDRESS, BYTES_SIZE = range(2)
BYTES_WIDTH: Final = 2

# Why a kernel stopped. Whatever it had done until then holds; the item it stopped at is for plain code.
DONE: Final = 0  # it did not: all is done
FULL: Final = 1  # no room for what comes next
MISUSED: Final = 2  # by its caller: a table or a size that cannot be; nothing is done
OUTSIDE: Final = 3  # a part lies outside of the memory it should be in, or is in no table
UNFIT: Final = 4  # a number or a size that has no place in a record, an entry or an index file
NOT_TEXT: Final = 5  # not UTF-8
SCHEDULED: Final = 6  # a record of the schedule topic: its code is a time
DIVIDED: Final = 7  # a record that counts as several messages, or is in several queues
ENDED: Final = 8  # the records of a file end here
CUT_OFF: Final = 9  # a record that is longer than what is left
NO_MAGIC: Final = 10  # bytes that are neither a record nor the end of a file
MISPLACED: Final = 11  # a record that says it lies elsewhere
UNEVEN: Final = 12  # a record whose parts do not add up to its size
CHANGED: Final = 13  # a record whose body does not match its checksum
NEW_TOPIC: Final = 14  # a record of a topic that is in no table yet
