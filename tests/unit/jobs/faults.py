"""All kinds of damage that `verify` must find, each planted at a random place, with what it should say of it.

The store is the one that `a_varied_store` makes: closed, with several files of everything, and a batch queue.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from embermq import Message
from embermq.format.batch_entry import BATCH_ENTRY_SIZE
from embermq.format.checkpoint import Checkpoint, Progress, decode_checkpoint, decode_progress, encode_page
from embermq.format.index_entry import ENTRY as INDEX_ENTRY
from embermq.format.index_entry import decode_index_header, entry_at, slot_at
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.format.record import Draft, Record
from embermq.model.flags import SysFlag
from embermq.model.properties import format_properties
from embermq.model.topic import TopicConfig
from tests.builders import SMALL_SIZES, a_store, some_messages
from tests.unit.store.planting import LOG_FILE, overwrite, overwrite_log, records_of

SLOTS = SMALL_SIZES["index_slots"]
QUEUE_FILE = SMALL_SIZES["queue_file_size"]
HEAD = 88  # bytes before the body, with addresses of version 4


class Planted(NamedTuple):
    """Where a fault is, and what is said of it."""

    file: str
    position: int
    kinds: tuple[str, ...]
    hides: tuple[str, int, int] | None = None  # topic, queue and offset of a message that it hides


class Scene(NamedTuple):
    """A store to plant something in."""

    path: Path
    records: list[Record]
    chance: random.Random

    def a_record(self, *, last: bool = True) -> Record:
        """Any record of the topics with simple queues, that is not the first of a file."""
        usable = [
            record
            for record in self.records
            if record.position % LOG_FILE and record.topic != "batches" and (last or record is not self.records[-1])
        ]
        return self.chance.choice(usable)

    def log_file(self, record: Record) -> str:
        return f"commitlog/{record.position // LOG_FILE * LOG_FILE:020d}"

    def in_log(self, record: Record, at: int, data: bytes, *kinds: str) -> Planted:
        """Write over bytes of a record."""
        overwrite_log(self.path, record.position + at, data)
        return Planted(self.log_file(record), record.position, kinds, place(record))

    def an_index_file(self) -> Path:
        return self.chance.choice(sorted((self.path / "index").iterdir()))


def place(record: Record) -> tuple[str, int, int]:
    return record.topic, record.queue, record.offset


def a_varied_store(path: Path) -> None:
    """Several files of everything."""
    with a_store(path) as store:
        store.save_topic(TopicConfig("batches", read_queues=1, write_queues=1, attributes={"queue.type": "BatchCQ"}))
        for number in range(60):
            store.put_many(some_messages(10, size=150))
            inner = {"INNER_NUM": "3", "KEYS": f"batch-{number}"}
            flag = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
            draft = Draft(b"batches", 0, b"x" * 50, format_properties(inner), sys_flag=flag)
            store.put_drafts(lambda draft=draft: [draft])  # type: ignore[misc]
            store.put(Message("clicks", b"%d" % number, queue=0, keys=[f"click-{number}"]))


def magic(scene: Scene) -> Planted:
    return scene.in_log(scene.a_record(), 4, b"\xda\xa3\x20\x00", "record", "tail")


def size_too_large(scene: Scene) -> Planted:
    return scene.in_log(scene.a_record(), 0, struct.pack(">i", LOG_FILE), "record", "tail")


def size_too_small(scene: Scene) -> Planted:
    return scene.in_log(scene.a_record(), 0, struct.pack(">i", 100), "record", "tail")


def own_position(scene: Scene) -> Planted:
    record = scene.a_record()
    return scene.in_log(record, 28, struct.pack(">q", record.position + 1), "record", "tail")


def body(scene: Scene) -> Planted:
    record = scene.a_record()
    return scene.in_log(record, HEAD + scene.chance.randrange(len(record.body)), b"\xff", "record")


def body_checksum(scene: Scene) -> Planted:
    return scene.in_log(scene.a_record(), 8, b"\x01\x02\x03\x04", "record")


def body_size(scene: Scene) -> Planted:
    return scene.in_log(scene.a_record(), HEAD - 4, struct.pack(">i", 7_000), "record", "tail")


def topic_size(scene: Scene) -> Planted:
    record = scene.a_record()
    return scene.in_log(record, HEAD + len(record.body), b"\x7f", "record", "tail")


def topic_name(scene: Scene) -> Planted:
    record = scene.a_record()
    planted = scene.in_log(record, HEAD + len(record.body) + 1, b"/", "record")
    return planted._replace(hides=None)  # of what topic it was, nobody knows


def properties_size(scene: Scene) -> Planted:
    record = scene.a_record()
    at = HEAD + len(record.body) + 1 + len(record.topic)
    return scene.in_log(record, at, b"\x00\x01", "record", "tail")


def properties_text(scene: Scene) -> Planted:
    record = scene.a_record()
    return scene.in_log(record, record.size - 3, b"\xff", "record")


def properties_torn(scene: Scene) -> Planted:
    record = scene.a_record()
    return scene.in_log(record, record.size - 2, bytes(2), "record")


def record_zeroed(scene: Scene) -> Planted:
    record = scene.a_record(last=False)
    return scene.in_log(record, 0, bytes(record.size), "hole", "record")


def garbage(scene: Scene) -> Planted:
    record = scene.a_record(last=False)
    return scene.in_log(record, 0, scene.chance.randbytes(record.size), "record")


def blank_size(scene: Scene) -> Planted:
    last = max((each for each in scene.records if each.position < LOG_FILE), key=lambda each: each.position)
    overwrite_log(scene.path, last.position + last.size, struct.pack(">i", 9))
    return Planted(f"commitlog/{0:020d}", last.position + last.size, ("record",))


def tail(scene: Scene) -> Planted:
    last = scene.records[-1]
    end = last.position + last.size
    overwrite_log(scene.path, end, b"\x11" * scene.chance.randrange(8, 90))
    return Planted(scene.log_file(last), end, ("tail",))


def log_file_cut(scene: Scene) -> Planted:
    name = f"commitlog/{0:020d}"
    (scene.path / name).write_bytes((scene.path / name).read_bytes()[: scene.chance.randrange(30_000, 60_000)])
    return Planted(name, 0, ("file",))


def log_file_missing(scene: Scene) -> Planted:
    name = f"commitlog/{LOG_FILE:020d}"
    (scene.path / name).unlink()
    record = next(each for each in scene.records if each.position >= LOG_FILE and each.topic == "orders")
    return Planted(name, 0, ("file",), place(record))


def log_file_foreign(scene: Scene) -> Planted:
    (scene.path / "commitlog" / "notes.txt").write_text("?")
    return Planted("commitlog/notes.txt", 0, ("file",))


def queue_offset(scene: Scene) -> Planted:
    """A record says another offset than its queue: the entry at its old place leads to it, and should not."""
    record = scene.a_record(last=False)
    overwrite_log(scene.path, record.position + 20, struct.pack(">q", record.offset + 100_000))
    return entry_place(record, ("queue",), hides=place(record))


def queue_number(scene: Scene) -> Planted:
    record = scene.a_record(last=False)
    overwrite_log(scene.path, record.position + 12, struct.pack(">i", record.queue ^ 1))
    return entry_place(record, ("queue",), hides=place(record))


def entry_place(record: Record, kinds: tuple[str, ...], hides: tuple[str, int, int] | None) -> Planted:
    start, at = divmod(record.offset * QUEUE_ENTRY_SIZE, QUEUE_FILE)
    return Planted(f"consumequeue/{record.topic}/{record.queue}/{start * QUEUE_FILE:020d}", at, kinds, hides)


def in_entry(scene: Scene, at: int, data: bytes) -> Planted:
    record = scene.a_record(last=False)
    planted = entry_place(record, ("queue", "orphan"), hides=place(record))
    overwrite(scene.path / planted.file, planted.position + at, data)
    return planted


def entry_position(scene: Scene) -> Planted:
    return in_entry(scene, 0, struct.pack(">q", scene.chance.randrange(LOG_FILE)))


def entry_size(scene: Scene) -> Planted:
    return in_entry(scene, 8, struct.pack(">i", scene.chance.randrange(1, 90)))


def entry_tags(scene: Scene) -> Planted:
    return in_entry(scene, 12, struct.pack(">q", 123))


def entry_of_another(scene: Scene) -> Planted:
    other = scene.a_record()
    return in_entry(scene, 0, struct.pack(">qi", other.position + 1, other.size))


def last_entries(scene: Scene) -> Planted:
    """A queue forgot its newest messages."""
    queue = scene.chance.randrange(4)
    mine = [each for each in scene.records if (each.topic, each.queue) == ("orders", queue)]
    count = scene.chance.randrange(1, 20)
    for record in mine[-count:]:
        at = entry_place(record, (), None)
        overwrite(scene.path / at.file, at.position, bytes(QUEUE_ENTRY_SIZE))
    first = mine[-count]
    return Planted(scene.log_file(first), first.position, ("orphan",), place(first))


def entries_missing(scene: Scene) -> Planted:
    """Zeros before other entries."""
    queue = scene.chance.randrange(4)
    mine = [each for each in scene.records if (each.topic, each.queue) == ("orders", queue)]
    record = scene.chance.choice(mine[:-1])
    planted = entry_place(record, ("queue",), place(record))
    overwrite(scene.path / planted.file, planted.position, bytes(QUEUE_ENTRY_SIZE))
    return planted


def entry_too_many(scene: Scene) -> Planted:
    record = [each for each in scene.records if (each.topic, each.queue) == ("clicks", 0)][-1]
    planted = entry_place(record._replace(offset=record.offset + 1), ("queue",), None)
    overwrite(scene.path / planted.file, planted.position, struct.pack(">qiq", 5, 100, 0))
    return planted


def queue_file_missing(scene: Scene) -> Planted:
    name = f"consumequeue/orders/{scene.chance.randrange(4)}/{0:020d}"
    following = (scene.path / name).with_name(f"{QUEUE_FILE:020d}")
    assert following.exists()
    (scene.path / name).rename(following.with_name(f"{3 * QUEUE_FILE:020d}"))
    return Planted(name.replace(f"{0:020d}", f"{2 * QUEUE_FILE:020d}"), 0, ("file",))


def queue_begins_too_late(scene: Scene) -> Planted:
    """The first file of a queue is gone, but not the records that it leads to."""
    queue = scene.chance.randrange(4)
    (scene.path / f"consumequeue/orders/{queue}/{0:020d}").unlink()
    first = next(each for each in scene.records if (each.topic, each.queue) == ("orders", queue))
    return Planted(scene.log_file(first), first.position, ("orphan",), ("orders", queue, 99))


def batch_queue_begins_too_late(scene: Scene) -> Planted:
    first, *_ = sorted((scene.path / "batchconsumequeue/batches/0").iterdir())
    first.unlink()
    record = next(each for each in scene.records if each.topic == "batches")
    return Planted(scene.log_file(record), record.position, ("orphan",), place(record))


def queue_file_cut(scene: Scene) -> Planted:
    queue = scene.chance.randrange(4)
    name = f"consumequeue/orders/{queue}/{0:020d}"
    kept = scene.chance.randrange(1, 90)
    (scene.path / name).write_bytes((scene.path / name).read_bytes()[: kept * QUEUE_ENTRY_SIZE])
    return Planted(name, 0, ("file",), ("orders", queue, 95))


def queue_file_foreign(scene: Scene) -> Planted:
    name = f"consumequeue/orders/{scene.chance.randrange(4)}/core"
    (scene.path / name).write_bytes(b"?")
    return Planted(name, 0, ("file",))


def queue_folder_missing(scene: Scene) -> Planted:
    import shutil

    shutil.rmtree(scene.path / "consumequeue" / "clicks")
    first = next(each for each in scene.records if each.topic == "clicks")
    return Planted(scene.log_file(first), first.position, ("orphan",), place(first))


def in_batch_entry(scene: Scene, at: int, data: bytes) -> Planted:
    number = scene.chance.randrange(1, 50)
    start, begin = divmod(number * BATCH_ENTRY_SIZE, SMALL_SIZES["batch_queue_file_size"])
    name = f"batchconsumequeue/batches/0/{start * SMALL_SIZES['batch_queue_file_size']:020d}"
    overwrite(scene.path / name, begin + at, data)
    return Planted(name, begin, ("queue",), ("batches", 0, 3 * number))


def batch_position(scene: Scene) -> Planted:
    return in_batch_entry(scene, 0, struct.pack(">q", 3))


def batch_base(scene: Scene) -> Planted:
    return in_batch_entry(scene, 28, struct.pack(">q", 100_000))


def batch_entry_missing(scene: Scene) -> Planted:
    return in_batch_entry(scene, 0, bytes(BATCH_ENTRY_SIZE))


def batch_file_missing(scene: Scene) -> Planted:
    _, second, *_ = sorted((scene.path / "batchconsumequeue/batches/0").iterdir())
    second.unlink()
    return Planted(
        str(second.relative_to(scene.path)), 0, ("file",), ("batches", 0, 3 * scene.chance.randrange(20, 40))
    )


def batch_file_cut(scene: Scene) -> Planted:
    _, second, *_ = sorted((scene.path / "batchconsumequeue/batches/0").iterdir())
    kept = scene.chance.randrange(1, 20)
    second.write_bytes(second.read_bytes()[: kept * BATCH_ENTRY_SIZE])
    return Planted(str(second.relative_to(scene.path)), 0, ("file",), ("batches", 0, 3 * (20 + kept)))


def queues_swapped(scene: Scene) -> Planted:
    """Every entry of two queues is wrong: of each file that is one line."""
    one, other = scene.chance.sample(range(4), 2)
    topic = scene.path / "consumequeue/orders"
    (topic / str(one)).rename(topic / "between")
    (topic / str(other)).rename(topic / str(one))
    (topic / "between").rename(topic / str(other))
    return Planted(f"consumequeue/orders/{one}/{0:020d}", 0, ("queue",), ("orders", one, scene.chance.randrange(100)))


def in_index(scene: Scene, at: int, data: bytes) -> Planted:
    """Write over bytes of an entry that is not the first: what that says of seconds counts for nothing."""
    file = scene.an_index_file()
    content = file.read_bytes()
    number = scene.chance.randrange(2, decode_index_header(content).next_entry)
    begin = entry_at(SLOTS, number)
    position = INDEX_ENTRY.unpack_from(content, begin)[1]
    record = next(each for each in scene.records if each.position == position)
    overwrite(file, begin + at, data)
    hides = place(record) if at > 4 or at == 0 else None
    return Planted(f"index/{file.name}", begin, ("index", "unindexed"), hides)


def index_hash(scene: Scene) -> Planted:
    return in_index(scene, 0, struct.pack(">i", 77))


def index_position(scene: Scene) -> Planted:
    return in_index(scene, 4, struct.pack(">q", 11))


def index_seconds(scene: Scene) -> Planted:
    return in_index(scene, 12, struct.pack(">i", 99_999))


def index_chain(scene: Scene) -> Planted:
    return in_index(scene, 16, struct.pack(">i", 199))


def index_slot(scene: Scene) -> Planted:
    file = scene.an_index_file()
    slot = scene.chance.randrange(SLOTS)
    overwrite(file, slot_at(slot), struct.pack(">i", 198))
    return Planted(f"index/{file.name}", slot_at(slot), ("index",))


def in_index_header(scene: Scene, at: int, data: bytes) -> Planted:
    file = scene.an_index_file()
    overwrite(file, at, data)
    return Planted(f"index/{file.name}", 0, ("index", "file"))


def index_begin_time(scene: Scene) -> Planted:
    return in_index_header(scene, 0, struct.pack(">q", 5))


def index_end_time(scene: Scene) -> Planted:
    return in_index_header(scene, 8, struct.pack(">q", 5))


def index_end_position(scene: Scene) -> Planted:
    return in_index_header(scene, 24, struct.pack(">q", 1 << 40))


def index_used_slots(scene: Scene) -> Planted:
    return in_index_header(scene, 32, struct.pack(">i", 3))


def index_count(scene: Scene) -> Planted:
    return in_index_header(scene, 36, struct.pack(">i", scene.chance.randrange(2, 20)))


def index_file_cut(scene: Scene) -> Planted:
    file = scene.an_index_file()
    file.write_bytes(file.read_bytes()[: scene.chance.randrange(100, 900)])
    return Planted(f"index/{file.name}", 0, ("file",))


def index_file_missing(scene: Scene) -> Planted:
    files = sorted((scene.path / "index").iterdir())
    file = scene.chance.choice(files[1:-1])
    first = INDEX_ENTRY.unpack_from(file.read_bytes(), entry_at(SLOTS, 1))[1]
    file.unlink()
    record = next(each for each in scene.records if each.position == first)
    return Planted(scene.log_file(record), first, ("unindexed",), place(record))


def index_files_swapped(scene: Scene) -> Planted:
    files = sorted((scene.path / "index").iterdir())
    number = scene.chance.randrange(len(files) - 1)
    earlier, later = files[number : number + 2]
    earlier.rename(scene.path / "between")
    later.rename(earlier)
    (scene.path / "between").rename(later)
    return Planted(f"index/{later.name}", 0, ("index",))


def index_file_foreign(scene: Scene) -> Planted:
    (scene.path / "index" / "old").write_bytes(b"?")
    return Planted("index/old", 0, ("file",))


def checkpoint_ahead(scene: Scene) -> Planted:
    page = (scene.path / "checkpoint").read_bytes()
    progress = decode_progress(page)
    assert isinstance(progress, Progress)
    checkpoint: Checkpoint = decode_checkpoint(page)
    moved = progress._replace(position=progress.position + scene.chance.randrange(1, 10_000))
    (scene.path / "checkpoint").write_bytes(encode_page(checkpoint, moved))
    return Planted("checkpoint", 0, ("checkpoint",))


def topics_unreadable(scene: Scene) -> Planted:
    for name in ("topics.json", "topics.json.bak"):
        (scene.path / "config" / name).write_bytes(b"{]")
    return Planted("config/topics.json", 0, ("file",))


FAULTS: tuple[Callable[[Scene], Planted], ...] = (
    magic, size_too_large, size_too_small, own_position, body, body_checksum, body_size, topic_size, topic_name,
    properties_size, properties_text, properties_torn, record_zeroed, garbage, blank_size, tail, log_file_cut,
    log_file_missing, log_file_foreign, queue_offset, queue_number, entry_position, entry_size, entry_tags,
    entry_of_another, last_entries, entries_missing, entry_too_many, queue_file_missing, queue_file_cut,
    queue_begins_too_late, batch_queue_begins_too_late, queue_file_foreign, queue_folder_missing, batch_position,
    batch_base, batch_entry_missing, batch_file_missing, batch_file_cut, queues_swapped, index_hash, index_position,
    index_seconds, index_chain, index_slot, index_begin_time, index_end_time, index_end_position, index_used_slots,
    index_count, index_file_cut, index_file_missing, index_files_swapped, index_file_foreign, checkpoint_ahead,
    topics_unreadable,
)  # fmt: skip


def a_scene(path: Path, chance: random.Random) -> Scene:
    return Scene(path, records_of(path), chance)
