"""Compiled, numpy's and plain code give the same rows of the same log, and the same damage, whatever bytes it holds."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from embermq.format.record import Draft
from embermq.model.flags import SysFlag
from embermq.scan.columns import ALL_COLUMNS
from embermq.scan.file_system import LocalFiles
from embermq.scan.reading import read_split
from embermq.scan.wanted import OffsetRange, Wanted
from tests.unit.kernels.kernel_builders import HOSTS, STORE_TIME, a_log, damaged, random_draft, run_cases
from tests.unit.scan.logs import ENGINES, a_log_of, a_split, outcome, rows_of

COLUMN_SETS = (
    ALL_COLUMNS,
    ("topic", "queueId", "queueOffset", "physicalOffset"),
    ("body",),
    ("keys", "tags"),
    ("properties", "bornHost"),
)


IDS = ("topic", "physicalOffset", "body", "properties", "tags", "flag")


def a_random_draft(random: Random) -> Draft:
    draft = random_draft(random)
    if random.random() < 0.1:
        packed = random.choice((zlib.compress(draft.body), draft.body))
        draft = draft._replace(body=packed, sys_flag=SysFlag.COMPRESSED | SysFlag.ZLIB)
    if random.random() < 0.05:
        draft = draft._replace(sys_flag=SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP)
    if random.random() < 0.1:
        draft = draft._replace(properties=random.randbytes(random.randrange(40)))
    return draft


def a_random_wanted(random: Random, drafts: list[Draft]) -> Wanted:
    wanted = Wanted(
        columns=random.choice(COLUMN_SETS),
        system_topics=True,
        decode_body=random.random() < 0.7,
        skip_damaged=random.random() < 0.7,
        broker_name="broker-a",
    )
    topics = [draft.topic.decode(errors="replace") for draft in drafts]
    match random.randrange(8):
        case 0:
            return replace(wanted, topics=frozenset(random.sample(topics, 1)))
        case 1:
            return replace(wanted, begin_time_ms=STORE_TIME + random.randrange(-1, 2))
        case 2:
            return replace(wanted, filter_text="tag || TagA")
        case 3:
            return replace(wanted, filter_text="a IS NOT NULL OR TAGS = 'TagA'")
        case 4:
            return replace(
                wanted, ranges=tuple(OffsetRange(topic, queue, 0, 3) for topic in topics for queue in (0, 1, 2))
            )
        case 5:
            return replace(wanted, keys=frozenset({"k1", "key", "a"}))
    return wanted


def run_case(random: Random, path: Path) -> int:
    drafts = [a_random_draft(random) for _ in range(random.randrange(1, 12))]
    log = a_log(drafts, store_host=random.choice(HOSTS))
    data = damaged(random, log) if random.random() < 0.5 else log
    place = a_log_of(path, data, size=random.choice((len(data), len(data) + 500)))
    split = a_split(place, len(data), begin=random.choice((0, 0, random.randrange(len(data) + 1))))
    wanted = a_random_wanted(random, drafts)
    found = {name: outcome(split, wanted, engine) for name, engine in ENGINES.items()}
    assert found["compiled"] == found["plain"]
    assert found["numpy"] == found["plain"]
    return len(drafts)


@pytest.mark.parametrize("read_size", [200, 4 << 20])
@pytest.mark.parametrize("count", [1_500, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_all_engines_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, read_size: int) -> None:
    monkeypatch.setattr(LocalFiles, "read_size", read_size)
    assert run_cases(count, 20_261_116 + read_size, lambda random: run_case(random, tmp_path)) >= count


def run_case_by_topic(random: Random, path: Path) -> int:
    drafts = [a_random_draft(random)._replace(properties=b"") for _ in range(random.randrange(1, 12))]
    log = a_log(drafts, store_host=random.choice(HOSTS))
    split = a_split(a_log_of(path, log), len(log))
    wanted = replace(a_random_wanted(random, drafts), columns=IDS, decode_body=False)
    for engine in ENGINES.values():
        batches = list(read_split(split, replace(wanted, by_topic=True), make_engine=engine))
        assert all(len(batch.column("topic").unique()) == 1 for batch in batches)
        found = [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]
        assert sorted(found, key=lambda row: row["physicalOffset"]) == rows_of(split, wanted, engine)
    return len(drafts)


def test_batches_by_topic_hold_the_same_rows(tmp_path: Path) -> None:
    assert run_cases(200, 20_261_117, lambda random: run_case_by_topic(random, tmp_path)) >= 200
