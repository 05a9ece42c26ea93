"""Static queues: parts that follow each other, and what may become of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from embermq.errors import IllegalField
from embermq.model.queue_mapping import UNKNOWN, QueueMapping, QueuePart, find_part, part_after, renewed

FIRST = QueuePart("broker-a", 3, end=120)
SECOND = QueuePart("broker-b", 0, generation=1, static_begin=1000)
MAPPING = QueueMapping("orders", "broker-b", epoch=7, total_queues=2, parts={0: (FIRST, SECOND)})


@pytest.mark.parametrize(
    ("offset", "part"), [(-1, FIRST), (0, FIRST), (119, FIRST), (120, FIRST), (999, FIRST), (1000, SECOND)]
)
def test_the_part_of_an_offset(offset: int, part: QueuePart) -> None:
    assert find_part((FIRST, SECOND), offset) == part


def test_a_part_that_has_not_begun_has_no_offsets() -> None:
    waiting = replace(SECOND, static_begin=UNKNOWN)
    assert find_part((FIRST, waiting), 5000) == FIRST
    assert part_after((FIRST, waiting), FIRST) is None
    assert part_after((FIRST, SECOND), FIRST) == SECOND
    assert part_after((FIRST, SECOND), SECOND) is None


@pytest.mark.parametrize("part", [FIRST, SECOND])
def test_offsets_go_there_and_back(part: QueuePart) -> None:
    assert [part.own_of(part.static_of(offset)) for offset in (0, 1, 119)] == [0, 1, 119]


def test_who_leads() -> None:
    assert MAPPING.leads(0) and MAPPING.led() == {0: 0}
    assert not replace(MAPPING, broker="broker-a").leads(0)
    assert not MAPPING.leads(1)


def test_queues_that_a_change_does_not_name_stay() -> None:
    wanted = replace(MAPPING, epoch=8, parts={1: (QueuePart("broker-b", 1),)})
    assert set(renewed(MAPPING, wanted, force=False).parts) == {0, 1}


@pytest.mark.parametrize(
    "wanted",
    [
        replace(MAPPING, epoch=6),
        replace(MAPPING, scope="elsewhere"),
        replace(MAPPING, parts={}),
        replace(MAPPING, parts={0: (FIRST, replace(SECOND, queue=9))}),
        replace(MAPPING, epoch=8, parts={0: (FIRST, replace(SECOND, static_begin=2000))}),
        replace(MAPPING, epoch=8, parts={0: (replace(FIRST, broker="broker-c"), SECOND)}),
    ],
)
def test_what_was_promised_is_not_changed(wanted: QueueMapping) -> None:
    with pytest.raises(IllegalField):
        renewed(MAPPING, wanted, force=False)
    assert renewed(MAPPING, wanted, force=True).epoch == wanted.epoch


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (replace(FIRST, queue=-1),),
        (replace(FIRST, begin=5, end=4),),
        (SECOND, FIRST),
        (FIRST, replace(SECOND, generation=0)),
        (replace(FIRST, static_begin=UNKNOWN), SECOND),
        (FIRST, replace(SECOND, static_begin=120)),
    ],
)
def test_parts_follow_each_other(parts: tuple[QueuePart, ...]) -> None:
    for force in (False, True):
        with pytest.raises(IllegalField):
            renewed(None, replace(MAPPING, parts={0: parts}), force=force)
