"""Rows as staged messages, whole batches at once: Arrow joins the parts of messages, and none becomes an object.

What is unusual about a batch (a row that cannot be written, a body that is worth packing, a delivery time, a name that
means something to brokers) makes it nothing here. Its rows are then taken one by one: see `sink_columns.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from embermq.client.outgoing import COMPRESSED_FROM
from embermq.client.staging import CHUNK_SIZE, now_ms
from embermq.errors import IllegalTopic
from embermq.format.staged import STAGED_HEAD
from embermq.format.wire_json import BrokerQueue
from embermq.model.hashing import java_hash
from embermq.model.properties import ASKABLE, KEYS, RESERVED, SHARDING_KEY, TAGS, TRANSIENT_PREFIX, WAIT
from embermq.model.topic import check_topic
from embermq_spark.sink_columns import SinkColumns

Numbers = npt.NDArray[np.int64]

LARGEST_BATCH: Final = 1 << 30  # bytes: Arrow counts them with 31 bits
MOST_TOPICS: Final = 100  # of one batch
MOST_PROPERTIES_SIZE: Final = 30_000  # brokers add to them
_UNUSUAL_BLANKS: Final = r"^ |  | $|[\t-\r\x1c-\x1f]"  # others than one between two keys
_BLANKS: Final = r"[\t-\r\x1c-\x20]"
_NO_QUEUE: Final = -1
_NOT_A_QUEUE: Final = -2  # a number below 0 that somebody gave


class TopicRows(NamedTuple):
    """Messages of one topic, in the order of their rows."""

    topic: str
    bodies: pa.BinaryArray
    properties: pa.BinaryArray
    queues: Numbers | None  # what rows say; -1 where one does not
    hashes: Numbers | None  # of sharding keys; -1 where there is none


class Encoded(NamedTuple):
    """Messages of one topic for one broker, as they travel."""

    target: BrokerQueue
    data: bytes
    messages: int


def split_topics(batch: pa.RecordBatch, columns: SinkColumns, *, topic: str | None) -> list[TopicRows] | None:
    """The messages of a batch by their topics; None if its rows must be taken one by one."""
    if columns.deliver_at >= 0 or batch.nbytes > LARGEST_BATCH:
        return None
    bodies = batch.column(columns.body).cast(pa.binary())
    properties = _properties(batch, columns)
    if properties is None or not _are_plain_bodies(bodies):
        return None
    hashes = _hashes(batch.column(columns.sharding_key)) if columns.sharding_key >= 0 else None
    queues = _queues(batch.column(columns.queue_id)) if columns.queue_id >= 0 else None
    whole = TopicRows(topic or "", bodies, properties, queues, hashes)
    if columns.topic < 0:
        return [whole] if _is_topic(topic) else None
    return _by_topic(whole, batch.column(columns.topic))


def encode_rows(rows: TopicRows, queues: Sequence[BrokerQueue], turn: int) -> list[Encoded] | None:
    """Messages as they travel, each for its queue, in pieces; None if a row names a queue that there is not.

    Queues are those that `choose_queue` gives, for turns from `turn` on.
    """
    chosen = _choose(rows, queues, turn)
    if chosen is None:
        return None
    joined = _join(rows, np.array([queue.queue for queue in queues], np.int64)[chosen])
    brokers = sorted({queue.broker for queue in queues})
    numbers = np.array([brokers.index(queue.broker) for queue in queues], np.int64)[chosen]
    found: list[Encoded] = []
    for number, broker in enumerate(brokers):
        target = next(queue for queue in queues if queue.broker == broker)
        own = joined if len(brokers) == 1 else joined.filter(pa.array(numbers == number))
        found += [Encoded(target, data, count) for data, count in _iter_pieces(own)]
    return found


def _by_topic(whole: TopicRows, column: pa.Array) -> list[TopicRows] | None:
    if column.null_count:
        return None
    encoded = column.cast(pa.string()).dictionary_encode()
    names, indices = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    if len(names) > MOST_TOPICS or not all(map(_is_topic, names)):
        return None
    found = []
    for number, name in enumerate(names):
        own = indices == number
        mask = pa.array(own)
        found.append(
            TopicRows(
                name,
                whole.bodies.filter(mask),
                whole.properties.filter(mask),
                None if whole.queues is None else whole.queues[own],
                None if whole.hashes is None else whole.hashes[own],
            )
        )
    return found


def _is_topic(name: str | None) -> bool:
    try:
        check_topic(name or "")
    except IllegalTopic:
        return False
    return True


def _are_plain_bodies(bodies: pa.BinaryArray) -> bool:
    if bodies.null_count or not len(bodies):
        return False
    sizes = pc.min_max(pc.binary_length(bodies)).as_py()
    return bool(sizes["min"] > 0 and sizes["max"] < COMPRESSED_FROM)


def _properties(batch: pa.RecordBatch, columns: SinkColumns) -> pa.BinaryArray | None:
    """The properties of all rows, in the order of `prepare`; None if some are unusual."""
    pieces: list[Any] = []
    for number, make in (
        (columns.properties, _map_pieces),
        (columns.sharding_key, lambda column: _word_pieces(SHARDING_KEY, column)),
        (columns.tags, lambda column: _word_pieces(TAGS, column)),
        (columns.keys, _key_pieces),
    ):
        if number >= 0:
            made = make(batch.column(number))
            if made is None:
                return None
            pieces.append(made)
    wait = f"{WAIT}\x01true\x02"
    if not pieces:
        return pa.repeat(pa.scalar(wait.encode(), pa.binary()), batch.num_rows)
    joined = pc.binary_join_element_wise(*pieces, wait, "").cast(pa.binary())
    is_large = pc.max(pc.binary_length(joined)).as_py() > MOST_PROPERTIES_SIZE
    return None if is_large else joined


def _word_pieces(name: str, column: pa.Array) -> pa.StringArray | None:
    """A property of one word, as text; nothing in rows without it."""
    words = column.cast(pa.string())
    if _has_ends(words):
        return None
    pieces = pc.binary_join_element_wise(f"{name}\x01", words, "\x02", "")
    return pc.if_else(pc.fill_null(pc.greater(pc.binary_length(words), 0), False), pieces, "")


def _key_pieces(column: pa.Array) -> pa.StringArray | None:
    """Keys as a property: a list of them, or one text that blanks separate."""
    if not pa.types.is_list(column.type):
        texts = column.cast(pa.string())
        return _word_pieces(KEYS, texts) if _is_usual(texts, _UNUSUAL_BLANKS) else None
    words = column.flatten().cast(pa.string())
    is_usual = not words.null_count and _is_usual(words, _BLANKS)
    if not is_usual or pc.any(pc.equal(pc.binary_length(words), 0)).as_py():
        return None
    return _word_pieces(KEYS, pc.binary_join(column.cast(pa.list_(pa.string())), " "))


def _map_pieces(column: pa.MapArray) -> pa.StringArray | None:
    """A map of properties as text."""
    offsets = column.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    names = column.keys.slice(first, last - first).cast(pa.string())
    values = column.items.slice(first, last - first).cast(pa.string())
    if (
        values.null_count
        or _has_ends(names)
        or _has_ends(values)
        or not all(map(_is_free, pc.unique(names).to_pylist()))
    ):
        return None
    if pc.any(pc.equal(pc.binary_length(values), 0)).as_py():
        return None
    pairs = pc.binary_join_element_wise(names, "\x01", values, "\x02", "")
    lists = pa.ListArray.from_arrays(pa.array(offsets - first, pa.int32()), pairs)
    return pc.binary_join(lists, "")


def _is_free(name: str) -> bool:
    """Whether a name means nothing to brokers."""
    return bool(name) and name not in ASKABLE and name not in RESERVED and not name.startswith(TRANSIENT_PREFIX)


def _has_ends(texts: pa.StringArray) -> bool:
    """Whether a text holds what ends names and values."""
    return any(pc.any(pc.match_substring(texts, end)).as_py() for end in ("\x01", "\x02"))


def _is_usual(texts: pa.StringArray, unusual: str) -> bool:
    is_ascii = pc.all(pc.string_is_ascii(texts)).as_py() is not False
    return is_ascii and not pc.any(pc.match_substring_regex(texts, unusual)).as_py()


def _hashes(column: pa.Array) -> Numbers:
    encoded = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    known = [abs(java_hash(key)) if key else _NO_QUEUE for key in encoded.dictionary.to_pylist()]
    found: Numbers = np.array(known, np.int64)[encoded.indices.to_numpy()]
    return found


def _queues(column: pa.Array) -> Numbers:
    asked = column.cast(pa.int64())
    found: Numbers = pc.fill_null(pc.if_else(pc.less(asked, 0), _NOT_A_QUEUE, asked), _NO_QUEUE).to_numpy()
    return found


def _choose(rows: TopicRows, queues: Sequence[BrokerQueue], turn: int) -> Numbers | None:
    """Which of `queues` each row goes to."""
    turns = np.arange(turn, turn + len(rows.bodies), dtype=np.int64)
    chosen: Numbers = turns % len(queues)
    if rows.hashes is not None:
        order = np.array(sorted(range(len(queues)), key=lambda number: queues[number]), np.int64)
        chosen = np.where(rows.hashes >= 0, order[rows.hashes % len(queues)], chosen)
    if rows.queues is not None:
        for queue in np.unique(rows.queues).tolist():
            fitting = [number for number, each in enumerate(queues) if each.queue == queue]
            own = rows.queues == queue
            if fitting:
                chosen[own] = np.array(fitting, np.int64)[turns[own] % len(fitting)]
            elif queue != _NO_QUEUE:
                return None
    return chosen


def _join(rows: TopicRows, queues: Numbers) -> pa.BinaryArray:
    """Each message with its numbers before it: see format/staged.py."""
    heads = np.zeros(len(rows.bodies), STAGED_HEAD)
    heads["queue"] = queues
    heads["born_time"] = now_ms()
    heads["body_size"] = pc.binary_length(rows.bodies).to_numpy()
    heads["properties_size"] = pc.binary_length(rows.properties).to_numpy()
    ends = np.arange(0, heads.nbytes + 1, heads.itemsize, dtype=np.int32)
    column = pa.BinaryArray.from_buffers(
        pa.binary(), len(heads), [None, pa.py_buffer(ends), pa.py_buffer(heads.tobytes())]
    )
    return pc.binary_join_element_wise(column, rows.bodies, rows.properties, b"")


def _iter_pieces(joined: pa.BinaryArray) -> Iterator[tuple[bytes, int]]:
    """The bytes of messages, no more than a chunk holds at a time, and how many messages they are."""
    if not len(joined):
        return
    _, offsets, data = joined.buffers()
    ends = np.frombuffer(offsets, np.int32)[joined.offset : joined.offset + len(joined) + 1]
    view, begin = memoryview(data), 0
    while begin < len(joined):
        end = max(int(np.searchsorted(ends, ends[begin] + CHUNK_SIZE, side="right")) - 1, begin + 1)
        yield view[ends[begin] : ends[end]].tobytes(), end - begin
        begin = end
