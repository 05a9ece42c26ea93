"""Records that these kernels pass are those that plain code has nothing to say about."""

from __future__ import annotations

from random import Random

import pytest

from embermq.format.property_crc import verify_property_crc
from embermq.format.record import Scanned
from embermq.kernels.columns import RECORD_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.record_check import count_faultless, count_named
from embermq.kernels.record_scan import scan_records
from embermq.model.topic import is_directory_name
from tests.unit.kernels.checked_records import a_checked_log
from tests.unit.kernels.kernel_builders import CASES, run_cases, scan_plainly, table


def rows_of(data: bytes) -> Table:
    records = table(10, RECORD_WIDTH)
    count, end, _ = scan_records(address_of(data), len(data), 0, True, records)
    assert end == len(data)
    return records[:count]


def is_faultless(found: Scanned, record: bytes) -> bool:
    properties = found.properties
    if not is_directory_name(found.topic) or properties.endswith(b"\0"):
        return False
    try:
        properties.decode()
    except UnicodeDecodeError:
        return False
    # The kernel leaves a name that is not the checksum's to plain code, too.
    return b"__CRC32#" not in properties or verify_property_crc(record) is True


@pytest.mark.parametrize("count", CASES)
def test_they_stop_at_the_first_record_that_plain_code_would_name(count: int) -> None:
    seen = set()

    def case(random: Random) -> int:
        data = a_checked_log(random)
        found, _, _ = scan_plainly(data, 0, check_body=True)
        rows, address = rows_of(data), address_of(data)
        assert len(rows) == len(found)
        records = [data[each.position : each.position + each.size] for each in found]
        named = [is_directory_name(each.topic) for each in found]
        checked = [
            ok and verify_property_crc(record) is True for ok, record in zip(named, records, strict=True)
        ]  # fmt: skip
        faultless = [is_faultless(each, record) for each, record in zip(found, records, strict=True)]
        assert count_named(address, len(data), 0, rows, False) == [*named, False].index(False)
        assert count_named(address, len(data), 0, rows, True) == [*checked, False].index(False)
        assert count_faultless(address, len(data), 0, rows) == [*faultless, False].index(False)
        seen.update(zip(named, checked, faultless, strict=True))
        return len(found)

    assert run_cases(count, 21, case) >= count
    assert len(seen) == 5  # all but what cannot be: a checksum or no fault without a name


def test_a_caller_that_cannot_be_right_gets_nothing_done() -> None:
    data = a_checked_log(Random(5))
    rows, address = rows_of(data), address_of(data)
    assert count_named(address, -1, 0, rows, False) == 0
    assert count_named(address, len(data), 0, rows[:, :-1].copy(), False) == 0
    assert count_faultless(address, -1, 0, rows) == 0
    assert count_faultless(address, len(data), 2**40, rows) == 0
    assert count_faultless(address, 10, 0, rows) == 0
