from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.checkpoint import (
    CHECKPOINT_SIZE,
    PROGRESS_AT,
    Checkpoint,
    Progress,
    decode_checkpoint,
    decode_progress,
    encode_checkpoint,
    encode_page,
    encode_progress,
)

i64 = st.integers(-(2**63), 2**63 - 1)
CHECKPOINT = Checkpoint(log_time=11, queue_time=12, index_time=13)
PROGRESS = Progress(4096, 3, 100, 2, 150, log_time=11, queue_time=12, index_time=13)


def test_a_checkpoint_has_the_bytes_of_the_format() -> None:
    encoded = encode_checkpoint(Checkpoint(1700000000123, 1700000000123))
    assert encoded.hex() == "0000018bcfe5687b" * 2 + "00" * 24


@given(st.builds(Checkpoint, i64, i64, i64, i64, i64))
def test_a_checkpoint_comes_back(checkpoint: Checkpoint) -> None:
    page = encode_page(checkpoint, None)
    assert len(page) == CHECKPOINT_SIZE
    assert decode_checkpoint(page) == checkpoint
    assert decode_progress(page) is None
    assert page[40:] == bytes(CHECKPOINT_SIZE - 40)


@given(st.builds(Progress, i64, i64, i64, i64, i64, i64, i64, i64))
def test_progress_comes_back(progress: Progress) -> None:
    checkpoint = Checkpoint(progress.log_time, progress.queue_time, progress.index_time, 5, 6)
    page = encode_page(checkpoint, progress)
    assert len(page) == CHECKPOINT_SIZE
    assert decode_progress(page) == progress
    assert decode_checkpoint(page) == checkpoint


def test_progress_is_not_believed_once_somebody_else_wrote_a_time() -> None:
    for field in ("log_time", "queue_time", "index_time"):
        changed = CHECKPOINT._replace(**{field: 99})
        assert decode_progress(encode_page(changed, PROGRESS)) is None
    unchanged = CHECKPOINT._replace(master_flushed_position=99, confirmed_position=99)
    assert decode_progress(encode_page(unchanged, PROGRESS)) == PROGRESS


def test_progress_with_any_flipped_bit_is_not_believed() -> None:
    page = encode_page(CHECKPOINT, PROGRESS)
    for at in range(PROGRESS_AT, PROGRESS_AT + len(encode_progress(PROGRESS))):
        for bit in range(8):
            broken = bytearray(page)
            broken[at] ^= 1 << bit
            assert decode_progress(broken) is None


def test_a_page_that_is_cut_has_no_progress() -> None:
    page = encode_page(CHECKPOINT, PROGRESS)
    end = PROGRESS_AT + len(encode_progress(PROGRESS))
    assert decode_progress(page[:end]) == PROGRESS
    assert decode_progress(page[: end - 1]) is None
    assert decode_progress(b"") is None


def test_a_checkpoint_needs_its_forty_bytes() -> None:
    assert decode_checkpoint(bytes(40)) == Checkpoint()
    with pytest.raises(CorruptRecord):
        decode_checkpoint(bytes(39))


@pytest.mark.parametrize(
    ("log_time", "queue_time", "expected"), [(9000, 8000, 5000), (8000, 9000, 5000), (3000, 9000, 0), (0, 9000, 0)]
)
def test_what_is_three_seconds_older_than_both_times_is_safe(log_time: int, queue_time: int, expected: int) -> None:
    assert Checkpoint(log_time, queue_time).safe_time == expected
