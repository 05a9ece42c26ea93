"""Hashes of text in memory are Java's, and only text has one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.kernels.memory import address_of
from embermq.kernels.text import hash_text
from embermq.model.hashing import java_hash
from tests.unit.kernels.kernel_builders import CASES, run_cases


def expected(data: bytes) -> int:
    try:
        return java_hash(data.decode()) % 2**32
    except UnicodeDecodeError:
        return -1


def found(data: bytes, before: int = 0) -> int:
    return hash_text(address_of(data), len(data), before)


@given(text=st.text(max_size=80))
def test_text_has_javas_hash(text: str) -> None:
    assert found(text.encode()) == java_hash(text) % 2**32


@given(text=st.text(st.characters(max_codepoint=127), max_size=80))
def test_ascii_has_javas_hash(text: str) -> None:
    assert found(text.encode()) == java_hash(text) % 2**32


@given(text=st.text(max_size=20), more=st.text(max_size=20))
def test_a_hash_goes_on_behind_another(text: str, more: str) -> None:
    assert found(more.encode(), found(text.encode())) == java_hash(text + more) % 2**32


@given(data=st.binary(max_size=40))
def test_bytes_that_are_no_text_have_none(data: bytes) -> None:
    assert found(data) == expected(data)


def test_every_first_byte_with_the_bounds_of_those_behind_it() -> None:
    edges = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
    for first in range(0x80, 0x100):
        for second in edges:
            for rest in (b"", b"\x80", b"\x80\x80", b"\xbf\xbf", b"\xbf\xc0", b"\x80\x80\x80", b"aaaaaaaa"):
                data = bytes((first, second)) + rest
                assert found(data) == expected(data), data.hex()


@pytest.mark.parametrize("count", CASES)
def test_random_bytes_near_to_text(count: int) -> None:
    def case(random: Random) -> int:
        characters = (0x61, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)
        data = bytearray("".join(chr(random.choice(characters)) for _ in range(random.randrange(12))).encode())
        if data and random.random() < 0.5:
            data[random.randrange(len(data))] = random.randrange(256)
        if random.random() < 0.2:
            del data[random.randrange(len(data) + 1) :]
        assert found(bytes(data)) == expected(bytes(data))
        return 1

    assert run_cases(count, 2, case) == count
