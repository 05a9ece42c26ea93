"""Who was seen reading a moment ago."""

from __future__ import annotations

from embermq.files.readers import MOMENT_S, Readers


def test_the_last_of_those_who_read_counts() -> None:
    readers = Readers()
    for position in (500, 300, 400):
        readers.note(position)
    assert readers.find_last(0.0) == 300


def test_who_was_not_seen_for_a_moment_counts_no_more() -> None:
    readers = Readers()
    readers.note(300)
    assert readers.find_last(MOMENT_S) == 300
    readers.note(700)
    assert readers.find_last(MOMENT_S * 1.9) == 300
    assert readers.find_last(MOMENT_S * 2) == 700
    assert readers.find_last(MOMENT_S * 3) > 2**62


def test_who_reads_before_the_beginning_is_not_waited_for() -> None:
    readers = Readers()
    readers.begin = 400
    readers.note(399)
    assert readers.find_last(0.0) > 2**62
    readers.note(400)
    assert readers.find_last(0.0) == 400
