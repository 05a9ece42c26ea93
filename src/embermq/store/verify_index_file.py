"""One file of the key index, as `verify` goes through it."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from embermq.format.index_entry import ENTRY, FIRST_ENTRY, decode_index_header, entry_at, slot_at
from embermq.log.index_file import MAX_SECONDS
from embermq.store.verify_damage import DamageKind, DamageList, Hidden, NumberedEntry

if TYPE_CHECKING:
    from embermq.kernels.found_records import FoundKeys

Entry = tuple[int, int, int, int]  # key hash, position, seconds, previous

_NOTHING: Final[Entry] = (0, 0, 0, 0)
_CLOCK_SLACK_MS: Final = 1_000  # entries count seconds
_EVERYTHING: Final = (1 << 63) - 1  # behind every record


class IndexFacts(NamedTuple):
    """What is known of a file before it is looked at."""

    path: Path
    view: memoryview
    slots: int
    entries: int
    is_settled: bool  # nobody writes it, and nobody was killed doing so
    until: int  # entries for records behind it may be torn, unless the file is settled
    store_time_at: Callable[[int], int | None]  # when the record at a position was stored
    hidden_at: Callable[[int], list[Hidden]]  # the message there, if there is one


class IndexOutline(NamedTuple):
    """What must be known of a file to compare its entries with keys. It travels to whoever does."""

    path: str
    slots: int
    end: int  # the number behind the last entry
    begin: int  # position of the first entry's record
    begin_time: int  # that seconds are counted from
    used_slots: int  # by its header

    @property
    def entry_count(self) -> int:
        return self.end - FIRST_ENTRY


class IndexEntries:
    """The entries of a file from the first to the last. `entry` is the one to look at."""

    def __init__(self, facts: IndexFacts, damage: DamageList) -> None:
        self.path = facts.path
        self._facts = facts
        self._damage = damage
        self._header = decode_index_header(facts.view)
        self._end = self._find_end()
        self._number = FIRST_ENTRY
        self.count = self._end - FIRST_ENTRY
        self.entry = self._read(FIRST_ENTRY) if self.count else _NOTHING
        self.is_over = not self.count or self._may_be_torn()
        self.begin, self.latest_begin = sorted((self._header.begin_position, self.entry[1]))  # one may be damaged
        first_time = facts.store_time_at(self.entry[1]) if self.count else None
        self._begin_time = self._header.begin_time if first_time is None else first_time
        if self.count and facts.is_settled:
            self._check_header(first_time)

    @cached_property
    def _newest(self) -> array[int]:
        """The newest entry of each slot, so far. Whoever only wants an outline needs no such array, which is large."""
        return array("i", [0]) * self._facts.slots

    def outline(self) -> IndexOutline:
        facts = self._facts
        return IndexOutline(
            str(facts.path), facts.slots, self._end, self.begin, self._begin_time, self._header.used_slots
        )

    def check_time(self, store_time: int) -> None:
        """Compare the entry with when its record was stored."""
        seconds = min(max((store_time - self._begin_time) // 1000, 0), MAX_SECONDS)
        # RocketMQ counts the first entry's from the begin of the file before, so it may say anything.
        if self.entry[2] != seconds and self._number > FIRST_ENTRY:
            self.report(f"it says {self.entry[2]} seconds, its record was stored after {seconds}")

    def is_chained(self, key_hash: int) -> bool:
        """Whether the entry follows the one before it in the slot that `key_hash` belongs to."""
        return self.entry[3] == self._newest[key_hash % self._facts.slots]

    def step(self, key_hash: int) -> None:
        """Follow the chain that `key_hash` belongs to, and go to the next entry, unless it `is_over`."""
        slot = key_hash % self._facts.slots
        if self.entry[3] != self._newest[slot]:
            self.report(f"its previous entry is {self.entry[3]}, the one before it in its slot {self._newest[slot]}")
        self._newest[slot] = self._number
        self._go_on(1)

    def pass_keys(self, keys: FoundKeys, begin: int) -> int:
        """Go over the entries that the keys from `begin` on call for, as far as they are so; returns how many are."""
        passed = keys.match(
            begin,
            self._facts.view,
            number=self._number,
            end=self._end,
            begin_time=self._begin_time,
            until=_EVERYTHING if self._facts.is_settled else min(self._facts.until, _EVERYTHING),
            newest=self._newest,
        )
        if passed:
            self._go_on(passed)
        return passed

    def _go_on(self, count: int) -> None:
        self._number += count
        self.is_over = self._number == self._end
        if not self.is_over:
            self.entry = self._read(self._number)
            self.is_over = self._may_be_torn()

    def report(self, detail: str) -> None:
        """Report the entry that is looked at."""
        at = entry_at(self._facts.slots, self._number)
        hides = self._facts.hidden_at(self.entry[1])
        entry = NumberedEntry("entry", self._number)
        what = f"entry {self._number}: {detail}"
        self._damage.add(self._facts.path, at, DamageKind.INDEX, what, hides=hides, entry=entry)

    def check_slots(self) -> None:
        """All entries were looked at: compare the slots with what they should lead to."""
        if not self._facts.is_settled:
            return
        slots = array("i", bytes(self._facts.view[slot_at(0) : slot_at(self._facts.slots)]))
        if sys.byteorder == "little":
            slots.byteswap()
        if slots != self._newest:
            for slot, (found, expected) in enumerate(zip(slots, self._newest, strict=True)):
                if found != expected:
                    detail = f"slot {slot} leads to entry {found}, its newest is {expected}"
                    self._damage.add(self._facts.path, slot_at(slot), DamageKind.INDEX, detail)
        used = self._facts.slots - self._newest.count(0)
        if self._header.used_slots != used:
            self._report_header(f"counts {self._header.used_slots} used slots, there are {used}")

    def _may_be_torn(self) -> bool:
        """Whether a crash, or an owner who works on the file, may have left the entry and all behind it half done."""
        return not self._facts.is_settled and (self.entry == _NOTHING or self.entry[1] >= self._facts.until)

    def _read(self, number: int) -> Entry:
        found: Entry = ENTRY.unpack_from(self._facts.view, entry_at(self._facts.slots, number))
        return found

    def _find_end(self) -> int:
        """The number behind the last entry: the header's, if that can be, else found by a look at the entries."""
        end, entries = self._header.next_entry, self._facts.entries
        if end <= entries and (end == FIRST_ENTRY or self._read(end - 1) != _NOTHING):
            goes_on = end < entries and self._read(end) != _NOTHING
            if not (goes_on and self._facts.is_settled):
                return end
        found = FIRST_ENTRY
        while found < entries and self._read(found) != _NOTHING:
            found += 1
        if self._facts.is_settled:
            self._report_header(f"counts {end - FIRST_ENTRY} entries, there are {found - FIRST_ENTRY}")
        return found

    def _check_header(self, first_time: int | None) -> None:
        header, last_position = self._header, self._read(self._end - 1)[1]
        last_time = self._facts.store_time_at(last_position)
        if header.begin_position != self.entry[1]:
            self._report_header(f"begins at {header.begin_position}, the first entry leads to {self.entry[1]}")
        if header.end_position != last_position:
            self._report_header(f"ends at {header.end_position}, the last entry leads to {last_position}")
        if first_time is not None and header.begin_time != first_time:
            self._report_header(f"begins at time {header.begin_time}, its first record was stored at {first_time}")
        if last_time is not None and abs(header.end_time - last_time) >= _CLOCK_SLACK_MS:
            self._report_header(f"ends at time {header.end_time}, its last record was stored at {last_time}")

    def _report_header(self, detail: str) -> None:
        self._damage.add(self._facts.path, 0, DamageKind.INDEX, f"the header {detail}")
