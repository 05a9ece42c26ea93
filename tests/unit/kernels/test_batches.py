"""Batches that kernels make drafts of: the same drafts as plain code, or left to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.intake import Born, Intake
from embermq.broker.locks import QueueLocks
from embermq.broker.parking import Parking
from embermq.broker.settings import BrokerSettings
from embermq.broker.topics import BrokerTopics
from embermq.errors import RequestError
from embermq.format.batch import BatchElement
from embermq.format.command import ONEWAY, Command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM
from embermq.format.message_id import UniqueIds
from embermq.kernels.sends import NOT_PLAIN, ROWS_FULL, SCRATCH_FULL
from embermq.kernels.turn import NOT_KNOWN
from embermq.model.topic import TopicConfig
from embermq.store.groups import Groups
from tests.builders import ManualClock, a_store
from tests.unit.kernels.sent_batches import (
    EXTRA,
    HOST,
    QUEUES,
    TEXTS,
    TOPIC,
    BatchSpoiler,
    TurnReader,
    batch_of,
    message,
)
from tests.unit.kernels.sent_frames import BATCH_CODE, CASES, golden_sends, send

FORMS = (JSON_FORM, BINARY_FORM)
BORN = Born(HOST, 0, 0)


@pytest.fixture(scope="module")
def intake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Intake]:
    path: Path = tmp_path_factory.mktemp("store")
    settings, clock = BrokerSettings(), ManualClock()
    with a_store(path) as store:
        store.save_topic(TopicConfig(TOPIC, read_queues=QUEUES, write_queues=QUEUES))
        yield Intake(
            BrokerTopics(store, settings),
            Groups(path / "groups.json", clock=clock, auto_create=True),
            QueueLocks(clock, timeout_ms=60_000),
            settings,
            lambda: store.settings,
            parking=Parking(lambda: settings, levels=18, waiting_at=lambda time_ms: 0, clock=clock),
            unique_ids=UniqueIds(bytes(4), process=1, instance=1),
        )


@pytest.fixture
def reader(intake: Intake) -> TurnReader:
    return limited(TurnReader(), intake)


def limited(reader: TurnReader, intake: Intake) -> TurnReader:
    reader.limit(body=intake.max_body, properties=intake.max_properties - len(intake.suffix))
    return reader


def check(command: Command, intake: Intake, reader: TurnReader) -> bool:
    """Whether kernels take a request; then they make the drafts that plain code makes."""
    data = encode_command(command)
    reader.clear()
    taken = reader.take(data)
    if taken == 0:
        return False
    assert taken == len(data)
    sent = intake.careful(command, BORN)
    assert reader.drafts(data, intake.suffix.encode()) == [list(sent.drafts)]
    assert sent.is_batch == (command.code == BATCH_CODE) and not sent.is_one_record
    return True


def is_refused(command: Command, intake: Intake) -> bool:
    try:
        intake.careful(command, BORN)
    except RequestError:
        return True
    return False


@pytest.mark.parametrize("cases", CASES)
def test_spoilt_batches_are_taken_the_same_or_left_alone(cases: int, intake: Intake, reader: TurnReader) -> None:
    spoiler = BatchSpoiler(cases)
    taken = sum(check(spoiler.command(), intake, reader) for _ in range(cases))
    assert cases // 4 < taken < 3 * cases // 4, "too few on one of the sides to tell much"


@given(st.binary(max_size=100), st.sampled_from(FORMS))
def test_any_bytes_for_a_body(intake: Intake, body: bytes, form: int) -> None:
    check(batch_of(body, form), intake, limited(TurnReader(), intake))


@given(
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=50), st.binary(max_size=50)), max_size=5)
)
def test_any_messages(intake: Intake, parts: list[tuple[int, bytes, bytes]]) -> None:
    elements = [BatchElement(flag, body, b"UNIQ_KEY\x01a\x02WAIT\x01b\x02" + text) for flag, body, text in parts]
    check(batch_of(elements), intake, limited(TurnReader(), intake))


@pytest.mark.parametrize("form", FORMS)
def test_what_clients_send_is_taken(form: int, intake: Intake, reader: TurnReader) -> None:
    golden = [command for command in golden_sends() if command.code == BATCH_CODE]
    assert len(golden) > 2
    for each in golden:
        fields = {**each.fields, "b": TOPIC}
        command = Command(BATCH_CODE, fields, each.body, each.opaque, each.flag, language="JAVA", form=form)
        assert check(command, intake, reader)


@pytest.mark.parametrize("count", [1, 2, 32, 200])
@pytest.mark.parametrize("flag", [0, ONEWAY])
def test_batches_of_any_size_are_taken(count: int, flag: int, intake: Intake, reader: TurnReader) -> None:
    assert check(batch_of([message(number, bytes([number])) for number in range(count)], flag=flag), intake, reader)


@pytest.mark.parametrize(
    "text",
    [
        "UNIQ_KEY\x01a\x02", "UNIQ_KEY\x01a\x02WAIT\x01true\x02", "WAIT\x01true\x02UNIQ_KEY\x01a\x02",
        "UNIQ_KEY\x01a\x02WAIT\x01false\x02", "UNIQ_KEY\x01a\x01b\x02WAIT\x01\x01\x02",
    ],
)  # fmt: skip
def test_a_batch_with_nothing_for_its_messages_is_taken(text: str, intake: Intake, reader: TurnReader) -> None:
    assert check(batch_of([message()], i=text), intake, reader)


@pytest.mark.parametrize(
    "text",
    [
        "", "WAIT\x01true\x02", "UNIQ_KEY\x01\x02", "UNIQ_KEY\x01a\x02TAGS\x01t\x02", "KEYS\x01k\x02UNIQ_KEY\x01a\x02",
        "UNIQ_KEY\x01a\x02WAIT\x01true\x02TAGS\x01t\x02", "WAIT\x01true\x02UNIQ_KEY\x01a\x02WAIT\x01true\x02",
        "UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02", "UNIQ_KEY\x01a\x02WAIT\x01\x02", "UNIQ_KEY\x01a\x02DELAY\x011\x02",
        "UNIQ_KEY\x01a\x02WAIT\x01true", "UNIQ_KEY\x01a\x02\x02",
    ],
)  # fmt: skip
def test_a_batch_that_has_more_for_its_messages_is_left_alone(text: str, intake: Intake, reader: TurnReader) -> None:
    assert not check(batch_of([message()], i=text), intake, reader)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(
    "properties",
    [
        b"", b"WAIT\x01true\x02", b"UNIQ_KEY\x01a\x02", b"UNIQ_KEY\x01a\x02WAIT\x01\x02",
        b"UNIQ_KEY\x01\x02WAIT\x01t\x02", b"UNIQ_KEY\x01a\x02WAIT\x01t",
        b"UNIQ_KEY\x01a\x02WAIT\x01t\x02DELAY\x011\x02", b"UNIQ_KEY\x01\xff\x02WAIT\x01t\x02",
        b"xUNIQ_KEY\x01a\x02WAIT\x01t\x02", b"UNIQ_KEY\x01a\x02xWAIT\x01t\x02", b"UNIQ_KEY\x01a\x02WAIT\x02\x01t\x02",
    ],
)  # fmt: skip
def test_one_message_that_is_not_plain_is_enough(
    number: int, properties: bytes, intake: Intake, reader: TurnReader
) -> None:
    elements = [message(each) for each in range(3)]
    elements[number] = message(properties=properties)
    assert not check(batch_of(elements), intake, reader)
    assert reader.reason == NOT_PLAIN


def test_without_wait_for_all_no_message_needs_its_own(intake: Intake, reader: TurnReader) -> None:
    assert check(batch_of([message(properties=b"UNIQ_KEY\x01a\x02")], i="UNIQ_KEY\x01a\x02"), intake, reader)


@pytest.mark.parametrize("text", TEXTS)
def test_odd_properties_are_kept_as_they_are_or_left_alone(text: bytes, intake: Intake, reader: TurnReader) -> None:
    plain = message().properties
    for properties in (plain + text, text + plain, plain + text + plain):
        check(batch_of([message(properties=properties)]), intake, reader)


def test_every_number_of_a_body_that_is_wrong_is_refused_by_both(intake: Intake, reader: TurnReader) -> None:
    body = batch_of([message(), message(1)]).data
    second = len(body) // 2
    for at in (16, 24, second + 16, second + 24):
        size = 4 if at % second == 16 else 2
        right = int.from_bytes(body[at : at + size])
        for wrong in (0, right - 1, right + 1, len(body), 256**size // 2 - 1, 256**size // 2, 256**size - 1):
            changed = batch_of(body[:at] + wrong.to_bytes(size) + body[at + size :])
            assert not check(changed, intake, reader) or not is_refused(changed, intake)


def test_a_body_that_ends_anywhere_is_refused_by_both(intake: Intake, reader: TurnReader) -> None:
    body = batch_of([message(), message(1)]).data
    for end in range(len(body) + 1):
        command = batch_of(body[:end])
        assert check(command, intake, reader) == (end in (len(body) // 2, len(body)))
        assert check(command, intake, reader) != is_refused(command, intake)


def test_limits(intake: Intake, reader: TurnReader) -> None:
    largest = intake.max_properties - len(intake.suffix)
    plain = message().properties
    for size in (largest, largest + 1):
        command = batch_of([message(properties=plain + b"x\x01" + b"v" * (size - len(plain) - 3) + b"\x02")])
        assert check(command, intake, reader) == (size == largest)
        assert is_refused(command, intake) == (size > largest)
    head = len(batch_of([message(body=b"b")]).data) - 1
    for size in (intake.max_body, intake.max_body + 1):
        command = batch_of([message(body=bytes(size - head))])
        assert check(command, intake, reader) == (size == intake.max_body)
        assert is_refused(command, intake) == (size > intake.max_body)


def test_records_that_might_not_fit_into_one_file_are_left_alone(intake: Intake) -> None:
    elements = [message(), message(1)]
    needed = sum(len(each.body) + len(each.properties) + EXTRA for each in elements)
    assert check(batch_of(elements), intake, limited(TurnReader(room=needed), intake))
    assert not check(batch_of(elements), intake, limited(TurnReader(room=needed - 1), intake))


def test_it_stops_where_there_is_no_room_and_goes_on_with_more(intake: Intake) -> None:
    frame = encode_command(batch_of([message(), message(1)]))
    text = len(batch_of([]).fields["i"]) + 2 * len(message().properties)
    for memory, reason in (
        (TurnReader(drafts=5), ROWS_FULL),
        (TurnReader(rows=2), ROWS_FULL),
        (TurnReader(texts=3 * text - 1), SCRATCH_FULL),
    ):
        reader = limited(memory, intake)
        taken = reader.take(3 * frame)
        assert taken in (len(frame), 2 * len(frame)) and reader.reason == reason
        reader.clear()
        assert reader.take((3 * frame)[taken:]) >= len(frame)


@pytest.mark.parametrize("fields", [{"b": "unknown"}, {"e": str(QUEUES)}])
def test_a_topic_or_queue_that_is_not_known_is_for_plain_code(
    fields: dict[str, str], intake: Intake, reader: TurnReader
) -> None:
    frame, other = encode_command(batch_of([message()])), encode_command(batch_of([message()], **fields))
    assert reader.take(frame + other + frame) == len(frame)
    assert reader.reason == NOT_KNOWN


def test_batches_and_single_messages_keep_their_order(intake: Intake, reader: TurnReader) -> None:
    commands = [
        send(unique="A1"),
        batch_of([message(1), message(2)]),
        batch_of([message(3)], BINARY_FORM),
        send(unique="B1", form=BINARY_FORM, e="3"),
        batch_of([message(4), message(5), message(6)], e="2"),
    ]
    data = b"".join(map(encode_command, commands))
    assert reader.take(data) == len(data)
    expected = [list(intake.careful(command, BORN).drafts) for command in commands]
    assert reader.drafts(data, intake.suffix.encode()) == expected
