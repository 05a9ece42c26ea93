"""A batch as columns tells the same as its records one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embermq.format.queue_entry import ENTRY
from embermq.format.record import Draft
from embermq.log.index_keys import rows_of
from embermq.log.placed import Placed, PlacedBatch
from embermq.log.queue_offsets import QueueOffsets
from embermq.log.queue_table import QueueTable

drafts = st.lists(
    st.tuples(
        st.sampled_from([b"orders", b"payments"]),
        st.integers(0, 2),
        st.just(b"body"),
        st.lists(
            st.sampled_from(
                [
                    *(b"TAGS\x01eu\x02", b"KEYS\x01k\x02", b"KEYS\x01k l\x02", b"KEYS\x01\x02", b"X\x01KEYS\x02"),
                    *(b"UNIQ_KEY\x01u\x02", b"UNIQ_KEY\x01v\x02", b"UNIQ_KEY\x01\x02", b"XUNIQ_KEY\x01w\x02"),
                ]
            ),
            max_size=4,
        ).map(b"".join),
    ).map(lambda fields: Draft(*fields)),
    min_size=1,
    max_size=30,
)


def a_batch(drafts: list[Draft]) -> tuple[PlacedBatch, list[Placed]]:
    offsets = QueueOffsets(QueueTable()).assign(drafts).offsets
    positions = [100 * number for number in range(len(drafts))]
    sizes = [100] * len(drafts)
    codes = [len(draft.properties) for draft in drafts]
    items = [
        Placed(draft.topic.decode(), draft.queue, offset, position, 100, code, 7, 0, draft.properties)
        for draft, offset, position, code in zip(drafts, offsets, positions, codes, strict=True)
    ]
    return PlacedBatch(drafts, offsets, positions, sizes, codes, 7), items


@given(drafts)
def test_a_batch_is_the_sequence_of_its_records(drafts: list[Draft]) -> None:
    batch, items = a_batch(drafts)
    assert list(batch) == items
    assert (len(batch), batch[-1], batch[1:3]) == (len(items), items[-1], items[1:3])


@given(drafts)
def test_the_runs_of_a_batch_hold_each_record_once_in_the_order_of_its_queue(drafts: list[Draft]) -> None:
    batch, items = a_batch(drafts)
    found = {
        (run.topic.decode(), run.queue, run.offset + number): ENTRY.unpack(entry)
        for run in batch.runs()
        for number, entry in enumerate(run.entries)
    }
    assert found == {
        (item.topic, item.queue, item.offset): (item.position, item.size, item.tags_code) for item in items
    }


@given(drafts)
def test_no_record_with_a_key_is_left_out(drafts: list[Draft]) -> None:
    batch, items = a_batch(drafts)
    assert rows_of(batch, after=-1) == rows_of(items, after=-1)
