"""Drafts that kernels write, as a table: the same store as plain code makes of them, or left to it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from embermq.errors import DiskFull
from embermq.format.record import DraftFields
from embermq.kernels import loading
from embermq.log.queue_table import QueueTable
from embermq.model.flags import SysFlag
from embermq.store.draft_tables import DraftTables
from embermq.store.settings import StoreSettings
from embermq.store.store import Store
from embermq.store.writer import LEAST_TABLE, Submitted
from tests.builders import SMALL_SIZES, ManualClock

HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
HOST_V6 = bytes(15) + b"\1\0\0\x2a\x9f"
SEPARATED = b"UNIQ_KEY\x01U\x02"


def a_draft(**changed: object) -> DraftFields:
    fields: dict[str, object] = {
        "topic": b"orders", "queue": 0, "body": b"body", "properties": SEPARATED, "flag": 0, "sys_flag": 0,
        "born_time": 1_700_000_000_000, "born_host": HOST, "reconsume_times": 0, "prepared": 0,
    }  # fmt: skip
    return tuple((fields | changed).values())  # type: ignore[return-value]


def some_drafts(random: Random, count: int) -> list[DraftFields]:
    drafts = []
    for number in range(count):
        properties = b"UNIQ_KEY\x01%d\x02TAGS\x01%d\x02" % (number, number % 3)
        if random.random() < 0.5:
            properties += b"KEYS\x01k%d\x02" % (number % 5)
        drafts.append(
            a_draft(
                topic=random.choice([b"orders", b"bills", b"RMQ_SYS_TRANS_HALF_TOPIC"]), queue=random.randrange(3),
                body=random.randbytes(random.choice([0, 1, 100, 3000])), properties=random.choice([properties, b""]),
                flag=random.choice([0, -1, 2**31 - 1]), sys_flag=random.choice([0, SysFlag.COMMITTED, 1]),
                born_host=random.choice([HOST, HOST, b"\x7f\0\0\2\0\0\x2a\x9f"]), prepared=random.choice([0, 7, 2**40]),
            )
        )  # fmt: skip
    return drafts


def submit(
    path: Path, batches: list[list[DraftFields]], *, with_kernels: bool
) -> tuple[list[Submitted], dict[str, bytes]]:
    """What a store says of drafts, and its files afterwards."""
    settings = StoreSettings.make({**SMALL_SIZES, "durability": "async", "reserve_bytes": 0})
    said = []
    with Store(path, settings, clock=ManualClock(), report=lambda done, total: None) as store:
        if with_kernels:
            loading.load()
            store.use_kernels()
        said = [store.submit(batch) for batch in batches]
    found = {
        str(file.relative_to(path)): file.read_bytes()
        for folder in ("commitlog", "consumequeue", "index")
        for file in sorted((path / folder).rglob("*"))
        if file.is_file()
    }
    return said, found


def test_any_drafts_are_stored_as_plain_code_stores_them(tmp_path: Path) -> None:
    random = Random(3)
    batches = [some_drafts(random, random.choice([1, LEAST_TABLE, 20, 60])) for _ in range(12)]
    plain, plain_files = submit(tmp_path / "plain", batches, with_kernels=False)
    fast, fast_files = submit(tmp_path / "fast", batches, with_kernels=True)
    assert fast == plain
    assert fast_files.keys() == plain_files.keys()
    for name, data in plain_files.items():
        assert fast_files[name] == data, f"{name} differs"


@pytest.mark.parametrize(
    "unusual",
    [
        {"topic": b"%LMQ%light"}, {"topic": b"SCHEDULE_TOPIC_XXXX"}, {"topic": b""}, {"topic": b"t" * 128},
        {"queue": -1}, {"queue": 2**31}, {"properties": b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"},
        {"sys_flag": int(SysFlag.INNER_BATCH)}, {"sys_flag": int(SysFlag.PREPARED)},
        {"sys_flag": int(SysFlag.ROLLED_BACK)}, {"flag": 2**31}, {"born_time": 2**63}, {"born_host": b"short"},
        {"properties": bytes(40_000)}, {"body": bytes(1 << 20)},
    ],
)  # fmt: skip
def test_what_is_unusual_is_for_plain_code(unusual: dict[str, object]) -> None:
    tables = DraftTables(QueueTable(), HOST, 1 << 20)
    usual = [a_draft(), a_draft(topic=b"bills", queue=2), a_draft(born_host=HOST_V6)]
    table = tables.make(usual)
    assert table is not None and len(table) == 3
    assert tables.make([*usual, a_draft(**unusual)]) is None


def test_a_table_that_the_disk_has_no_space_for_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loading.load()
    settings = StoreSettings.make({**SMALL_SIZES, "durability": "async", "reserve_bytes": 0})
    with Store(tmp_path / "store", settings, clock=ManualClock(), report=lambda done, total: None) as store:
        store.use_kernels()
        drafts = [a_draft(body=bytes(3000))] * 60
        first = store.submit(drafts)

        def full(*arguments: object) -> None:
            raise OSError(28, "no space left", str(tmp_path))

        monkeypatch.setattr("os.posix_fallocate", full)
        with pytest.raises(DiskFull):
            store.submit(drafts)
        assert store.log_files().end == first.end
        assert store.offsets("orders", queue=0)[1] == len(drafts)
