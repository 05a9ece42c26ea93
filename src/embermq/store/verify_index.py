"""Compares the key index with the log: entry by entry, and chain by chain.

Index and log have the same order. So while the log is walked, the index is walked beside
it: the next key of the next record should be the next entry. Chains are followed along the
way, for the previous entry of a slot is the last one seen:

    log      record 0: a b      record 1: c      record 2: a
    entries  1: a   2: b        3: c             4: a, previous 1
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embermq.errors import CorruptRecord
from embermq.format.checkpoint import Progress
from embermq.format.index_entry import ENTRY, HEADER, SLOT, decode_index_header, index_file_size
from embermq.log.index_file import detect_shape
from embermq.log.index_keys import Row, rows_of
from embermq.log.placed import Placed
from embermq.store.verify_damage import MOST_HIDDEN, DamageKind, DamageList, Hidden
from embermq.store.verify_files import Views, find_files
from embermq.store.verify_index_file import IndexEntries, IndexFacts, IndexOutline
from embermq.store.verify_log import Judgement, LogWalk, RecordsToCheck

if TYPE_CHECKING:
    from embermq.kernels.found_records import FoundKeys

_NAME_SIZE: Final = 17
_USUAL_RATIO: Final = 4  # entries for each slot


class IndexCheck:
    """The index files of a store, from the oldest to the newest."""

    def __init__(
        self,
        folder: Path,
        log: LogWalk,
        views: Views,
        damage: DamageList,
        judgement: Judgement,
        progress: Progress | None,
    ) -> None:
        self._folder = folder
        self._log = log
        self._views = views
        self._damage = damage
        self._judgement = judgement
        self._progress = progress
        self._paths = self._find_paths(folder)
        self._entry_count = 0
        self._missing = array("q")  # positions of records that lack an entry
        self._missing_ordinals = array("q")  # which of the records with keys they are
        self._ordinal = 0
        self._files = self._iter_files()
        self._file = next(self._files, None)
        # Records before the first that the index knows expired in it, or came before it was switched on.
        self._begin = self._file.begin if self._file else None

    def check(self, batch: RecordsToCheck) -> None:
        """Look the keys of records up in the index. They come in the order of the log."""
        if self._begin is None:
            return
        for piece in batch.pieces:
            if isinstance(piece, list):
                self._check_items(piece, after=self._begin - 1)
            else:
                self._check_found(piece.keys_from(self._begin))

    def _check_items(self, items: list[Placed], *, after: int) -> None:
        before = -1
        for row in rows_of(items, after=after):
            if row[1][0] != before:
                before = row[1][0]
                self._ordinal += 1
            self._check_row(row)

    def _check_found(self, keys: FoundKeys) -> None:
        number = 0
        while number < len(keys):
            passed = self._file.pass_keys(keys, number) if self._file is not None else 0
            following = number + max(passed, 1)
            self._ordinal += keys.count_records(number, following)
            if passed:
                self._leave_if_over()
            else:
                self._check_row(keys[number])
            number = following

    def _check_row(self, row: Row) -> None:
        key_hash, (position, store_time) = row
        file = self._file
        if file is not None and file.entry[0] == key_hash and file.entry[1] == position:
            file.check_time(store_time)
            self._step(key_hash)
        else:
            self._check_unlike(row)

    def outline(self) -> list[IndexOutline] | None:
        """The files as a proof that all is right begins with them; None if something was found already.

        To be asked before any record is looked up.
        """
        files = [self._file, *self._files] if self._file is not None else []
        return None if self._damage.count else [file.outline() for file in files]

    def accept(self) -> None:
        """It was proven that every record is found by its keys, and nothing else is."""
        for _ in self._files:  # all of them are counted
            pass
        self._file = None

    def finish(self) -> None:
        """All records were looked up: go through the entries that are left, and report keys that are missing."""
        while self._file is not None:
            self._pass(self._file)
        self._report_missing()
        if not self._damage.has(DamageKind.INDEX, DamageKind.UNINDEXED):
            self._compare_count()

    def _compare_count(self) -> None:
        """Find files that are missing at the beginning, or all of them, by what the checkpoint counts."""
        counted = self._progress.index_entries if self._progress else 0
        if self._entry_count < counted and (self._judgement.is_settled or not self._paths):
            detail = f"the checkpoint counts {counted} entries, there are {self._entry_count}"
            self._damage.add(self._folder, 0, DamageKind.INDEX, detail)

    def _check_unlike(self, row: Row) -> None:
        """Look for the entry of `row`, which is not the next one as it should be."""
        key_hash, (position, store_time) = row
        while (file := self._file) is not None:
            found_hash, found_position, *_ = file.entry
            if (found_hash, found_position) == (key_hash, position):
                file.check_time(store_time)
                self._step(key_hash)
                return
            if self._is_true(found_hash, found_position):
                if found_position >= position:
                    break
                self._step(found_hash)  # filed twice, as after a restart
            elif self._is_gone(found_position) or (key_hash != found_hash and position != found_position):
                self._pass(file)
            else:
                file.report(f"hash {found_hash} and position {found_position}, not {key_hash} and {position}")
                # If it is chained as its own hash calls for, the record's key has changed, not the entry.
                self._step(key_hash if file.is_chained(key_hash) else found_hash)
                return
        if not self._missing or self._missing[-1] != position:
            self._missing.append(position)
            self._missing_ordinals.append(self._ordinal)

    def _is_gone(self, position: int) -> bool:
        """Whether the record there expired, or is damaged and reported."""
        return position < self._log.begin or self._log.damaged.holds(position)

    def _is_true(self, key_hash: int, position: int) -> bool:
        """Whether a record with such a key begins at `position`."""
        item = self._log.find(position)
        return item is not None and any(row[0] == key_hash for row in rows_of([item], after=-1))

    def _pass(self, file: IndexEntries) -> None:
        """Leave an entry behind that belongs to no record that was looked up."""
        key_hash, position, *_ = file.entry
        is_judged = position < self._judgement.until and not (self._judgement.in_use and position >= self._log.end)
        if is_judged and not self._is_gone(position) and not self._is_true(key_hash, position):
            file.report(f"it leads to position {position}, where no record with such a key begins")
        self._step(key_hash)

    def _step(self, key_hash: int) -> None:
        """Go to the next entry; the one at hand belongs to `key_hash`."""
        assert self._file is not None
        self._file.step(key_hash)
        self._leave_if_over()

    def _leave_if_over(self) -> None:
        """Go to the next file if all entries of this one were looked at."""
        assert self._file is not None
        if self._file.is_over:
            self._file.check_slots()
            self._file = next(self._files, None)

    def _report_missing(self) -> None:
        progress = self._progress
        if progress is not None and not progress.index_entries:
            return  # the index is switched off
        runs: list[list[int]] = []  # first position, last position, last ordinal
        for position, ordinal in zip(self._missing, self._missing_ordinals, strict=True):
            if position >= self._judgement.until:
                break
            if runs and runs[-1][2] == ordinal - 1:
                runs[-1][1:] = position, ordinal
            else:
                runs.append([position, position, ordinal])
        for first, last, _ in runs:
            which = "the record" if first == last else f"the records with keys from here to {last}"
            detail = f"{which} cannot be found by all keys"
            missing = self._missing[bisect_left(self._missing, first) : bisect_right(self._missing, last)]
            hides = [hidden for position in missing[:MOST_HIDDEN] for hidden in self._hidden_at(position)]
            self._damage.add(self._log.segment_of(first).path, first, DamageKind.UNINDEXED, detail, hides=hides)

    def _find_paths(self, folder: Path) -> list[Path]:
        paths = find_files(folder, _is_index_name, self._damage)
        while paths and not len(self._views.of(paths[-1])):  # a crash came while it was made
            paths.pop()
        return paths

    def _iter_files(self) -> Iterator[IndexEntries]:
        """The files that have entries; those that are none are reported."""
        shape = self._find_shape()
        before: IndexEntries | None = None
        for path in self._paths:
            view = self._views.of(path)
            if shape is None or len(view) != index_file_size(*shape):
                expected = f"{index_file_size(*shape)} expected" if shape else "which no index file has"
                self._damage.add(path, 0, DamageKind.FILE, f"{len(view)} bytes found, {expected}")
                continue
            file = self._open(path, view, *shape)
            self._entry_count += file.count
            if file.count:
                self._check_order(before, file)
                before = file
            if file.is_over:
                file.check_slots()
            else:
                yield file

    def _check_order(self, before: IndexEntries | None, file: IndexEntries) -> None:
        """Files are searched from the last to the first by their times, so their names must have the log's order."""
        if before is not None and file.latest_begin < before.begin:
            detail = f"it begins at position {file.begin}, {before.path.name} before it at {before.begin}"
            self._damage.add(file.path, 0, DamageKind.INDEX, detail)

    def _open(self, path: Path, view: memoryview, slots: int, entries: int) -> IndexEntries:
        facts = IndexFacts(
            path,
            view,
            slots,
            entries,
            is_settled=self._judgement.is_settled or path != self._paths[-1],
            until=self._judgement.until,
            store_time_at=self._store_time_at,
            hidden_at=self._hidden_at,
        )
        return IndexEntries(facts, self._damage)

    def _find_shape(self) -> tuple[int, int] | None:
        """The numbers of slots and entries that most files speak for."""
        votes = Counter(shape for path in self._paths if (shape := _shape_of(path, self._views.of(path))))
        if votes:
            return votes.most_common(1)[0][0]
        for path in self._paths:
            slots, rest = divmod(len(self._views.of(path)) - HEADER.size, SLOT.size + ENTRY.size * _USUAL_RATIO)
            if slots > 0 and rest == 0:
                return slots, slots * _USUAL_RATIO
        return None

    def _hidden_at(self, position: int) -> list[Hidden]:
        item = self._log.find(position)
        return [Hidden(item.topic, item.queue, item.offset, item.offset + item.count)] if item is not None else []

    def _store_time_at(self, position: int) -> int | None:
        item = self._log.find(position)
        return item.store_time if item is not None else None


def _shape_of(path: Path, view: memoryview) -> tuple[int, int] | None:
    """The shape of an index file whose header makes sense and that is in use."""
    if len(view) <= HEADER.size:
        return None
    header = decode_index_header(view)
    if header.next_entry < 2 or not 0 <= header.begin_position <= header.end_position or not header.end_position:
        return None
    try:
        return detect_shape(path)
    except (CorruptRecord, OSError):
        return None


def _is_index_name(name: str) -> bool:
    return len(name) == _NAME_SIZE and name.isascii() and name.isdecimal()
