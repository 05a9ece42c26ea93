"""Compaction as a job: what stays is what a dict would keep, at its old offsets, in files that a broker reads."""

from __future__ import annotations

import io
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from embermq import Message
from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.cli.main import main
from embermq.errors import MissingFile, StoreError, StoreLocked, TopicNotFound
from embermq.format.compacted import decode_compacted_positions
from embermq.jobs import compact_source
from embermq.jobs.compact_in_place import compact_in_place
from embermq.jobs.errors import NotCompacted, RecordTooLarge, TargetExists
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.kernels import loading
from embermq.store.settings import StoreSettings
from tests.builders import a_store
from tests.conftest import Golden
from tests.unit.broker.brokers import Client, with_broker
from tests.unit.broker.test_compaction import read_all
from tests.unit.jobs.compacting import (
    SMALL,
    TABLE,
    a_table_store,
    all_messages,
    compacted,
    fill,
    newest_of,
    read_compacted,
)
from tests.unit.jobs.rebuilding import SIZES
from tests.unit.store.planting import overwrite_log, records_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    a_table_store(path)
    return path


def in_place(path: Path, **options: Any) -> Any:
    given = {"range_size": 9_000, "sizes": SMALL, "settings": StoreSettings(**SIZES), **options}
    return compact_in_place(path, runner=LocalRunner(1), progress=Progress("compact"), **given)


def files_of(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


@pytest.mark.parametrize(("range_size", "workers"), [(9_000, 1), (1_000_000, 2), (700, 2)])
def test_what_stays_is_what_a_dict_keeps(store: Path, tmp_path: Path, range_size: int, workers: int) -> None:
    messages = all_messages(store)
    wanted = newest_of(messages)
    made = compacted(store, tmp_path / "out", range_size=range_size, workers=workers)
    assert read_compacted(tmp_path / "out") == wanted
    assert (made.kept, made.queues, made.damage) == (sum(map(len, wanted.values())), 2, [])
    assert made.kept + made.dropped == sum(map(len, messages.values()))
    assert len(list((tmp_path / "out/compaction/compactionLog/table/0").iterdir())) > 1
    positions = decode_compacted_positions((tmp_path / "out/compaction/position-checkpoint").read_bytes())
    assert positions == {f"table_{queue}": max(offsets) for queue, offsets in messages.items()}


def test_kernels_and_shares_of_keys_make_the_same_files(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(loading, "is_loaded", lambda: False)
        compacted(store, tmp_path / "plain")
    if loading.is_installed():
        loading.load()
        monkeypatch.setattr("embermq.jobs.log_ranges._KERNELS_PAY_AFTER", 0)
    monkeypatch.setattr(compact_source, "KEYS_AT_ONCE", 30)
    compacted(store, tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "plain")


def test_a_second_time_begins_with_what_the_first_has_kept(store: Path, tmp_path: Path) -> None:
    messages = all_messages(store)
    in_place(store)
    with a_store(store) as opened:
        fill(opened, 300, seed=2)
    messages = {queue: messages[queue] | found for queue, found in all_messages(store).items()}
    first = min((store / "commitlog").iterdir())
    first.unlink()  # it has expired
    with a_store(store):
        pass
    assert all_messages(store)[0].keys() < messages[0].keys()
    in_place(store)
    assert read_compacted(store) == newest_of(messages)


def test_a_broker_serves_what_stays_and_goes_on(store: Path) -> None:
    messages = newest_of(all_messages(store))[0]
    in_place(store)

    async def work(broker: Broker) -> None:
        client = Client(broker)
        found = await read_all(client)
        assert found == [(offset, body.decode()) for offset, (_, body) in messages.items()]
        answer = await client.send("table", b"new", KEYS="k1")
        end = int(answer.fields["queueOffset"])
        assert end == max(messages) + 1
        assert await read_all(client, offset=end) == [(end, "new")]

    settings = BrokerSettings(compaction_file_size=5_000, compaction_queue_file_size=920)
    with_broker(store, work, settings=settings)


def test_rocketmqs_own_compacted_store(golden: Golden, tmp_path: Path) -> None:
    path = golden.store("compaction")
    before = read_compacted(path, "CompactTopic")
    made = compacted(path, tmp_path / "out", settings=None)
    after = read_compacted(tmp_path / "out", "CompactTopic")
    assert after == newest_of(before)
    assert made.topics == ("CompactTopic",)
    for name in ("compactionLog", "compactionCq"):
        sizes = {
            each.stat().st_size
            for root in (path, tmp_path / "out")
            for each in (root / "compaction" / name).rglob("0*")
        }
        assert len(sizes - {4096}) == 1


def test_records_of_a_topic_that_was_deleted_and_made_anew_stay_away(tmp_path: Path) -> None:
    path = tmp_path / "store"
    a_table_store(path, 50)
    with a_store(path) as store:
        store.delete_topic("table")
        store.save_topic(TABLE)
        for body in (b"a", b"b"):
            store.put(Message("table", body, keys=[body.decode()]), queue=0)
    compacted(path, tmp_path / "out")
    assert read_compacted(tmp_path / "out") == {0: {0: ("a", b"a"), 1: ("b", b"b")}}


def test_damage_is_passed_over_and_told(store: Path, tmp_path: Path) -> None:
    messages = all_messages(store)
    record: Any = next(each for each in reversed(records_of(store)) if each.topic == "table" and len(each.body) > 4)
    overwrite_log(store, record.position + 88, b"\xff" * 2)  # in its body
    made = compacted(store, tmp_path / "out")
    del messages[record.queue][record.offset]
    assert [(begin, reason) for _, begin, _, reason in made.damage] == [
        (record.position, "its body does not match its checksum")
    ]
    assert read_compacted(tmp_path / "out") == newest_of(messages)


def test_damaged_files_of_an_earlier_compaction_are_not_thrown_away(store: Path) -> None:
    in_place(store)
    log = min((store / "compaction/compactionLog/table/0").iterdir())
    data = bytearray(log.read_bytes())
    data[100] ^= 0xFF
    log.write_bytes(data)
    before = files_of(store / "compaction")
    with pytest.raises(StoreError, match=r"damaged from 0 to \d+, .*--out"):
        in_place(store)
    assert files_of(store / "compaction") == before


class Stopped(BaseException):
    """As if the process ended here."""


@pytest.mark.parametrize("step", [0, 3, 7, 11])
def test_whatever_step_it_ends_at_nothing_that_counts_is_lost(
    store: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    in_place(store)
    with a_store(store) as opened:
        fill(opened, 100, seed=3)
    kept, wanted = read_compacted(store), newest_of(all_messages(store))
    calls, rename = 0, Path.rename

    def stop_at_step(path: Path, target: Any) -> Path:
        nonlocal calls
        calls += 1
        if calls > step:
            raise Stopped
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", stop_at_step)
    with suppress(Stopped):
        in_place(store)
    monkeypatch.undo()
    for queue, found in read_compacted(store).items():
        assert found in (kept[queue], wanted[queue])
    in_place(store)
    assert read_compacted(store) == wanted


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topics": ["clicks"]}, NotCompacted),
        ({"topics": ["tables"]}, TopicNotFound),
        ({"out": "store"}, TargetExists),
    ],
)
def test_what_cannot_be_is_refused(store: Path, arguments: dict[str, Any], error: type[Exception]) -> None:
    before = files_of(store)
    out = store.with_name(arguments.pop("out", "out"))
    with pytest.raises(error):
        compacted(store, out, **arguments)
    assert files_of(store) == before


def test_a_store_without_compacted_topics_says_how_to_make_one(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put(Message("orders", b"x"))
    with pytest.raises(NotCompacted, match=r"--attribute cleanup\.policy=COMPACTION"):
        compacted(tmp_path / "store", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_record_that_fits_into_no_file_is_refused(store: Path, tmp_path: Path) -> None:
    with a_store(store) as opened:
        opened.put(Message("table", b"." * 6_000, keys=["large"]), queue=0)
    for is_loaded in {False, loading.is_loaded()}:
        with pytest.raises(RecordTooLarge, match=r"a record of 6\d{3} bytes"), pytest.MonkeyPatch.context() as patch:
            patch.setattr(loading, "is_loaded", lambda is_loaded=is_loaded: is_loaded)
            compacted(store, tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()


def test_half_a_pair_is_refused(store: Path, tmp_path: Path) -> None:
    in_place(store)
    min((store / "compaction/compactionCq/table/0").iterdir()).unlink()
    with pytest.raises(MissingFile):
        compacted(store, tmp_path / "out")


def test_a_store_with_an_owner_is_compacted_elsewhere_only(store: Path, tmp_path: Path) -> None:
    wanted = newest_of(all_messages(store))
    with a_store(store):
        with pytest.raises(StoreLocked, match="in use by this process"):
            in_place(store)
        compacted(store, tmp_path / "out")
    assert read_compacted(tmp_path / "out") == wanted
    assert not (store / "compaction").exists()


def test_the_command_asks_tells_and_compacts(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = newest_of(all_messages(store))
    config = tmp_path / "broker.conf"
    config.write_text("compactionMappedFileSize=5000\ncompactionCqMappedFileSize=920\n")
    command = ["store", "compact", str(store), "--config", str(config)]
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main([*command, "--dry-run"]) == 0
    assert "would compact table of" in capsys.readouterr().out
    assert main(command) == 4
    assert "say --yes" in capsys.readouterr().err
    assert not (store / "compaction").exists()
    assert main([*command, "--yes", "--json", "--workers", "1"]) == 0
    assert f'"kept":{sum(map(len, wanted.values()))},' in capsys.readouterr().out
    assert read_compacted(store) == wanted
    assert main([*command, "--topic", "clicks", "--out", str(tmp_path / "out")]) == 4
    shutil.rmtree(store)
    assert main(command) == 3
