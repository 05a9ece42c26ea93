"""SENDs parsed by a kernel: the same as plain code reads, or left to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.intake import Intake
from embermq.broker.locks import QueueLocks
from embermq.broker.parking import Parking
from embermq.broker.settings import BrokerSettings
from embermq.broker.topics import BrokerTopics
from embermq.errors import BadFrame
from embermq.format.command import ONEWAY, Command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, FrameLimits, split_frames
from embermq.format.message_id import UniqueIds
from embermq.kernels.sends import BAD_FRAME, ENDED, NOT_PLAIN, ROWS_FULL, SCRATCH_FULL, SendLimits
from embermq.store.groups import Groups
from tests.builders import ManualClock, a_store
from tests.unit.kernels.sent_frames import (
    CASES,
    FULL_NAMES,
    PIECES,
    PlainCode,
    Reader,
    Spoiler,
    golden_frames,
    golden_sends,
    json_frame,
    send,
    with_full_names,
)

FORMS = (JSON_FORM, BINARY_FORM)
READER = Reader()


@pytest.fixture(scope="module")
def plain_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainCode]:
    path: Path = tmp_path_factory.mktemp("store")
    settings, clock = BrokerSettings(), ManualClock()
    with a_store(path) as store:
        yield PlainCode(
            Intake(
                BrokerTopics(store, settings),
                Groups(path / "groups.json", clock=clock, auto_create=True),
                QueueLocks(clock, timeout_ms=60_000),
                settings,
                lambda: store.settings,
                parking=Parking(lambda: settings, levels=18, waiting_at=lambda time_ms: 0, clock=clock),
                unique_ids=UniqueIds(bytes(4), process=1, instance=1),
            )
        )


def check(data: bytes, plain_code: PlainCode, reader: Reader = READER) -> int:
    """Compare both readings of `data`, frame after frame; how many frames the kernel took."""
    taken = 0
    while True:
        rows, got = reader.read(data, plain_code.limits)
        consumed, rest = data[: got.consumed], data[got.consumed :]
        frames, size = split_frames(consumed)
        assert size == len(consumed)
        assert rows == [plain_code.read(frame) for frame in frames]
        taken += got.rows
        if got.reason == BAD_FRAME:
            with pytest.raises(BadFrame):
                split_frames(rest)
            return taken
        if got.reason == ENDED:
            assert split_frames(rest) == ([], 0)
            return taken
        if got.reason == NOT_PLAIN or not rows:
            rest = rest[4 + int.from_bytes(rest[:4]) :]  # plain code takes this frame
        data = rest


def test_what_clients_send_is_taken_but_for_what_asks_for_more(plain_code: PlainCode) -> None:
    reasons: Counter[tuple[bool, bool]] = Counter()
    for command in golden_sends():
        for each in (command, with_full_names(command)):
            for form in FORMS:
                data = encode_command(
                    Command(each.code, each.fields, each.data, each.opaque, each.flag, language="JAVA", form=form)
                )
                (frame,), _ = split_frames(data)
                is_plain = plain_code.read(frame) is not None
                reasons[is_plain, check(data, plain_code) == 1] += 1
    assert set(reasons) == {(True, True), (False, False)}
    assert reasons[True, True] > reasons[False, False]


def test_recorded_frames_of_all_kinds_are_read_the_same(plain_code: PlainCode) -> None:
    frames = [frame for frame in golden_frames() if split_or_none(frame)]
    assert check(b"".join(frames), plain_code) > 20


def split_or_none(data: bytes) -> bool:
    try:
        return split_frames(data)[1] == len(data)
    except BadFrame:
        return False


@pytest.mark.parametrize("cases", CASES)
def test_spoilt_sends_are_read_the_same_or_left_alone(cases: int, plain_code: PlainCode) -> None:
    spoiler = Spoiler(cases)
    taken = sum(check(spoiler.frame(), plain_code) for _ in range(cases))
    assert taken > cases // 10, "too few of them came through to compare much"


def test_every_piece_at_every_place_of_a_json_header(plain_code: PlainCode) -> None:
    data = encode_command(send())
    header = data[8 : 8 + int.from_bytes(data[5:8])]
    frames = (json_frame(header[:at] + piece + header[at:]) for at in range(len(header) + 1) for piece in PIECES)
    assert sum(check(frame, plain_code) for frame in frames) > 1_000


ASKING = (
    "TIMER_DELIVER_MS\x011700000060000\x02",
    "TIMER_DELAY_MS\x0160000\x02",
    "TIMER_DELAY_SEC\x0160\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01PID_test\x02",
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("asks", ASKING)
def test_a_message_that_waits_for_its_time_or_its_transaction_is_taken(
    plain_code: PlainCode, asks: str, form: int
) -> None:
    usual = "KEYS\x01k1\x02UNIQ_KEY\x01A1\x02WAIT\x01true\x02"
    for text in (asks + usual, usual + asks, "TAGS\x01a\x02" + asks + usual):
        assert check(encode_command(send(form=form, i=text)), plain_code) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        "TIMER_DELIVER_MS\x01\x02", "TIMER_DELIVER_MS\x01x\x02", "TIMER_DELIVER_MS\x01-1\x02",
        "TIMER_DELIVER_MS\x010\x02",
        "TIMER_DELIVER_MS\x01999999999999999999999\x02", "TIMER_DELIVER_MS\x01007\x02", "TIMER_DELIVER_MS\x017",
        "TIMER_DELIVER_MS\x017\x02TIMER_DELIVER_MS\x018\x02", "TIMER_DELIVER_MS\x017\x02TIMER_DELAY_MS\x018\x02",
        "TIMER_DELIVER_MS\x017\x02DELAY\x013\x02", "TIMER_DELIVER_MS\x017\x02TRAN_MSG\x01true\x02PGROUP\x01g\x02",
        "xTIMER_DELIVER_MS\x017\x02", "TIMER_DELIVER_MS\x017\x01\x02", "TIMER_DELIVER_MS\x02",
        "TIMER_DELAY_MS\x010\x02", "TIMER_DELAY_SEC\x010\x02", "TIMER_DELAY_SEC\x01-7\x02",
        "TIMER_DELAY_SEC\x019223372036854775\x02", "TIMER_DELAY_SEC\x011000000000000000\x02",
        "TIMER_DELAY_MS\x011000000000000000000\x02", "TIMER_DELAY_MS\x017\x02TIMER_DELAY_SEC\x018\x02",
        "TIMER_DELAY_SE\x017\x02", "TIMER_DELAY_SECS\x017\x02", "TIMER_DELAY_M\x017\x02", "xTIMER_DELAY_MS\x017\x02",
        "TIMER_DEL_UNIQKEY\x017\x02", "TIMER_DEL_UNIQ_KEY\x017\x02",
        "TRAN_MSG\x01true\x02", "TRAN_MSG\x01false\x02PGROUP\x01g\x02", "TRAN_MSG\x01true\x02PGROUP\x01\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01g\x02PGROUP\x01h\x02", "TRAN_MSG\x01true\x02xPGROUP\x01g\x02",
        "TRAN_MSG\x01true\x02TRAN_MSG\x01true\x02PGROUP\x01g\x02", "xTRAN_MSG\x01true\x02PGROUP\x01g\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01g\x02REAL_TOPIC\x01t\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01g\x02__transactionId__\x01t\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01g\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x011\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01g\x02TRANSACTION_CHECK_TIMES\x011\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01g\x02UNIQ_KEY\x01b\x02",
    ],
)  # fmt: skip
def test_what_asks_for_something_unusual_is_left_alone(plain_code: PlainCode, text: str, form: int) -> None:
    assert check(encode_command(send(form=form, i=f"UNIQ_KEY\x01a\x02{text}")), plain_code) == 0
    assert check(encode_command(send(form=form, i=f"{text}UNIQ_KEY\x01a\x02")), plain_code) == 0


@pytest.mark.parametrize("asks", ASKING)
def test_every_piece_at_and_over_every_place_of_properties_that_ask(plain_code: PlainCode, asks: str) -> None:
    properties = f"UNIQ_KEY\x01A1\x02{asks}WAIT\x01true\x02"
    unescaped = (piece.replace(b"\\u0001", b"\x01").replace(b"\\u0002", b"\x02") for piece in PIECES)
    pieces = [piece.decode() for piece in unescaped if piece.isascii() and len(piece) < 100]
    taken = 0
    for at in range(len(properties) + 1):
        for piece in pieces:
            for text in (properties[:at] + piece, properties[:at] + piece + properties[at:]):
                taken += check(encode_command(send(i=text + properties[at + len(piece) :])), plain_code)
    assert taken > len(properties) * 10


def test_every_piece_at_and_over_every_place_of_a_header_that_is_like_the_one_before(plain_code: PlainCode) -> None:
    before = encode_command(send())
    header = before[8 : 8 + int.from_bytes(before[5:8])]
    taken = 0
    for at in range(len(header) + 1):
        for piece in PIECES:
            taken += check(before + json_frame(header[:at] + piece + header[at:]), plain_code)
            taken += check(before + json_frame(header[:at] + piece + header[at + len(piece) :]), plain_code)
    assert taken > 2_000 + 2 * len(header) * len(PIECES)


@pytest.mark.parametrize("cases", CASES)
def test_headers_that_are_alike_are_read_the_same(cases: int, plain_code: PlainCode) -> None:
    random, taken = Random(cases), 0
    for _ in range(cases // 10):
        kind = random.choice(golden_sends())
        frames = [another_like(kind, random) for _ in range(10)]
        if random.random() < 0.3:
            frames[random.randrange(10)] = Spoiler(random.randrange(2**32)).frame()
        taken += check(b"".join(frames), plain_code)
    assert taken > cases // 4, "too few of them came through to compare much"


def another_like(command: Command, random: Random) -> bytes:
    """A SEND of the same kind, with other values where those of one client differ."""
    names = FULL_NAMES if command.code == 10 else dict(zip(FULL_NAMES, FULL_NAMES, strict=True))
    unique = random.randbytes(random.randrange(1, 20)).hex()
    properties = random.choice(("", "TAGS\x01é\x02")) + f"UNIQ_KEY\x01{unique}\x02WAIT\x01true\x02"
    values = {
        names["e"]: str(random.randrange(-1, 2 ** random.randrange(1, 34))),
        names["g"]: str(random.randrange(2 ** random.randrange(1, 66))),
        names["i"]: random.choice((properties, properties, "TIMER_" + properties, properties[:-1])),
    }
    opaque = random.randrange(-(2**31), 2**31)
    body = random.randbytes(random.randrange(1, 30))
    return encode_command(Command(command.code, {**command.fields, **values}, body, opaque, form=JSON_FORM))


def test_every_piece_over_every_place_of_a_binary_header(plain_code: PlainCode) -> None:
    data = encode_command(send(form=BINARY_FORM))
    end = 8 + int.from_bytes(data[5:8])
    frames = (
        data[:at] + piece + data[at + len(piece) :]
        for at in range(8, end)
        for piece in (*PIECES, *(bytes([byte]) for byte in (3, 16, 0xC3, 0xF4)))
        if at + len(piece) <= end
    )
    assert sum(check(frame, plain_code) for frame in frames) > 1_000


@given(st.lists(st.integers(0, 10_000), max_size=8), st.integers(1, 4), st.sampled_from((0, 90, 150, 4096)), st.data())
def test_reads_of_any_size_with_any_memory(
    plain_code: PlainCode, seeds: list[int], capacity: int, scratch_size: int, data: st.DataObject
) -> None:
    frames = b"".join(encode_command(send(unique=f"U{seed}", form=seed % 2)) for seed in seeds)
    check(frames[: data.draw(st.integers(0, len(frames)))], plain_code, Reader(capacity, scratch_size))


_names = st.sampled_from(("code", "extFields", "flag", "opaque", "version", "language", "remark", "b", "i", "x"))
_values: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from((310, 10, 0, 2)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=4),
    max_leaves=6,
)


@given(st.dictionaries(_names, _values, max_size=8))
def test_any_json_is_read_the_same_or_left_alone(plain_code: PlainCode, header: dict[str, object]) -> None:
    check(json_frame(json.dumps(header)), plain_code)


@given(st.text(max_size=60), st.booleans(), st.sampled_from(FORMS))
def test_any_properties(plain_code: PlainCode, text: str, ascii_only: bool, form: int) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        form = JSON_FORM
    command = send(i=f"UNIQ_KEY\x01id\x02{text}\x02")
    if form == BINARY_FORM:
        check(encode_command(Command(310, command.fields, b"b", 1, form=form)), plain_code)
    else:
        header = {"code": 310, "extFields": dict(command.fields), "flag": 0, "opaque": 1}
        check(json_frame(json.dumps(header, ensure_ascii=ascii_only)), plain_code)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        "UNIQ_KEY\x01a\x02DELAY\x011\x02", "TIMER_ROLL\x011\x02UNIQ_KEY\x01a\x02", "UNIQ_KEY\x01TRAN_MSG\x02",
        "POP_CKUNIQ_KEY\x01a\x02", "UNIQ_KEY\x01a\x02INNER_", "UNIQ_KEY\x01a\x02REPLY_TO_CLIENT\x01c\x02",
        "__RMQ.TRANSIENT.x\x01y\x02UNIQ_KEY\x01a\x02", "UNIQ_KEY\x01\x02", "UNIQ_KEY\x01a", "KEYS\x01a\x02", "", "\x02",
        "xUNIQ_KEY\x01a\x02", "xUNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02", "UNIQ_KEY\x02", "UNIQ_KEY",
        "POP__RMQ.TRANSIENT.x\x01y\x02UNIQ_KEY\x01a\x02", "TRAN__RMQ.TRANSIENT.x\x01y\x02UNIQ_KEY\x01a\x02",
        "REPLY__RMQ.TRANSIENT.x\x01y\x02UNIQ_KEY\x01a\x02",
    ],
)  # fmt: skip
def test_properties_that_ask_for_more_are_left_alone(plain_code: PlainCode, text: str, form: int) -> None:
    assert check(encode_command(send(form=form, i=text)), plain_code) == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        "UNIQ_KEY\x01a\x02", "DELA\x01Y\x02UNIQ_KEY\x01a\x02", "TIMER\x01_\x02UNIQ_KEY\x01a\x02TRAN_MS\x01G\x02",
        "POP_C\x01K\x02UNIQ_KEY\x01_Y_Y\x02", "REPLY_TO_CLIEN\x01T\x02UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02",
        "_\x01__RMQ.TRANSIENT\x02UNIQ_KEY\x01é中😀\x02", "UNIQ_KEY\x01a\x01b\x02\x02\x02",
    ],
)  # fmt: skip
def test_properties_that_only_look_so_are_taken(plain_code: PlainCode, text: str, form: int) -> None:
    assert check(encode_command(send(form=form, i=text)), plain_code) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "fields",
    [
        {"m": "true"}, {"j": "1"}, {"e": "-1"}, {"e": "2147483648"}, {"e": "x"}, {"e": "01"}, {"g": "-1"},
        {"g": "9223372036854775808"}, {"h": "2147483648"}, {"h": "-2147483649"}, {"f": "4294967296"}, {"b": "größe"},
        {"g": "-9999999999999999999"}, {"g": "18446744073709551617"},
    ],
)  # fmt: skip
def test_fields_that_are_unusual_are_left_alone(plain_code: PlainCode, fields: dict[str, str], form: int) -> None:
    assert check(encode_command(send(form=form, **fields)), plain_code) == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "fields",
    [
        {"e": "0"}, {"e": "2147483647"}, {"g": "0"}, {"g": "9223372036854775807"}, {"h": "-2147483648"},
        {"h": "2147483647"}, {"f": "769"}, {"f": "-1"}, {"a": "größe"}, {"unknown": "\x01\\\"é😀"},
    ],
)  # fmt: skip
def test_fields_at_their_limits_are_taken(plain_code: PlainCode, fields: dict[str, str], form: int) -> None:
    assert check(encode_command(send(form=form, **fields)), plain_code) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("code", "batch", "is_taken"),
    [(320, "true", True), (320, "false", False), (320, "", False), (320, "TRUE", False), (310, "true", False)],
)
def test_a_batch_is_one_by_its_code_and_by_its_field(
    plain_code: PlainCode, form: int, code: int, batch: str, is_taken: bool
) -> None:
    command = send(m=batch)
    data = encode_command(Command(code, command.fields, b"b", 1, form=form))
    assert check(data, plain_code) == is_taken


FIELDS = json.dumps(dict(send().fields))


@pytest.mark.parametrize(
    ("members", "is_taken"),
    [
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1', True),
        (f'"extFields":{FIELDS},"flag":0,"opaque":1,"code":310', True),
        (f'"remark":null,"opaque":-1,"x":true,"y":-12,"z":"\\u0041","flag":2,"code":310,"extFields":{FIELDS}', True),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1,"opaque":1', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1,"code":310', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1,"flag":0', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1,"extFields":{FIELDS}', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1,"extFields":null', False),
        (f'"code":310,"extFields":{FIELDS[:-1]},"b":"orders"}},"flag":0,"opaque":1', False),
        (f'"extFields":{FIELDS[:-1]},"j":"0"}},"flag":0,"opaque":1,"code":310', False),
        (f'"code":310,"extFields":{FIELDS[:-1]},"x":1}},"flag":0,"opaque":1', False),
        (f'"code":310,"extFields":{FIELDS[:-1]},"x":null}},"flag":0,"opaque":1', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0', False),
        (f'"code":310,"extFields":{FIELDS},"opaque":1', False),
        (f'"extFields":{FIELDS},"flag":0,"opaque":1', False),
        ('"code":310,"extFields":{},"flag":0,"opaque":1', False),
        ('"code":310,"flag":0,"opaque":1', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":2147483648', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1,"version":2147483648', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1,"language":1', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1,"x":[]', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1,"x":1.5', False),
        (f'"code":310,"extFields":{FIELDS},"flag":0,"opaque":1,', False),
        (f'"code":320,"extFields":{FIELDS},"flag":0,"opaque":1', False),
    ],
)
def test_what_the_header_must_have_once_and_may_have_besides(
    plain_code: PlainCode, members: str, is_taken: bool
) -> None:
    assert check(json_frame(f"{{{members}}}"), plain_code) == is_taken


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["b", "e", "f", "g", "h", "i"])
def test_no_field_that_is_needed_may_be_missing(plain_code: PlainCode, name: str, form: int) -> None:
    command = send(form=form)
    fields = {each: value for each, value in command.fields.items() if each != name}
    assert check(encode_command(Command(310, fields, b"b", 1, form=form)), plain_code) == 0


def test_a_binary_field_that_comes_twice_is_left_alone(plain_code: PlainCode) -> None:
    data = encode_command(send(form=BINARY_FORM, a="\0\x01e\0\0\0\x011"))
    # The name and the size of `a` make room: what was its value is a second `e` then.
    at = data.index(b"\0\x01a\0\0\0\x08")
    twice = data[:at] + b"\0\x01x\0\0\0\0" + data[at + 7 :]
    assert check(data, plain_code) == 1
    assert check(twice, plain_code) == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("flag", [0, ONEWAY, 1, 3, 4, -1])
def test_only_requests_are_taken(plain_code: PlainCode, flag: int, form: int) -> None:
    assert check(encode_command(send(form=form, flag=flag)), plain_code) == (flag in (0, ONEWAY))


@pytest.mark.parametrize("form", FORMS)
def test_sizes_beyond_the_limits_are_left_alone(form: int) -> None:
    data = encode_command(send(form=form))
    _, got = READER.read(data, SendLimits())
    assert (got.rows, got.consumed, got.reason) == (1, len(data), ENDED)
    properties, header = got.scratch_used, int.from_bytes(data[5:8])
    for limits, reason in (
        (SendLimits(body_size=3), NOT_PLAIN),
        (SendLimits(properties_size=properties - 1), NOT_PLAIN),
        (SendLimits(FrameLimits(frame_size=len(data) - 1)), BAD_FRAME),
        (SendLimits(FrameLimits(header_size=header - 1)), BAD_FRAME),
    ):
        assert READER.read(data, limits)[1] == (0, 0, 0, reason)
    exact = SendLimits(FrameLimits(len(data), header), body_size=4, properties_size=properties)
    assert READER.read(data, exact)[1].rows == 1


def test_a_body_is_needed() -> None:
    empty = send()
    data = encode_command(Command(310, empty.fields, b"", 1))
    assert READER.read(data, SendLimits())[1] == (0, 0, 0, NOT_PLAIN)


@pytest.mark.parametrize("form", FORMS)
def test_it_stops_when_its_memory_is_full_and_goes_on_with_more(form: int) -> None:
    data = encode_command(send(form=form)) * 3
    used = READER.read(data, SendLimits())[1].scratch_used
    one = len(data) // 3
    assert Reader(capacity=2).read(data, SendLimits())[1] == (2, 2 * one, used // 3 * 2, ROWS_FULL)
    assert Reader(scratch_size=used - 1).read(data, SendLimits())[1] == (2, 2 * one, used // 3 * 2, SCRATCH_FULL)
    assert Reader(scratch_size=used).read(data, SendLimits())[1] == (3, 3 * one, used, ENDED)
