"""Ctrl-C is neither lost nor turned into something else by the code that it meets."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import pytest

from embermq.interrupts import holding_interrupts, minding_interrupts


@pytest.fixture(autouse=True)
def as_in_a_shell() -> object:
    """Tests that run in the background ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), holding_interrupts():
        press()
        done.append("the rest")
    assert done == ["the rest"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_comes_before_what_the_block_failed_with() -> None:
    with pytest.raises(KeyboardInterrupt), holding_interrupts():
        press()
        raise OSError("half loaded")


def test_what_was_not_interrupted_is_not() -> None:
    with holding_interrupts(), minding_interrupts():
        pass
    for mind in (holding_interrupts, minding_interrupts):
        with pytest.raises(OSError, match="no file"), mind():
            raise OSError("no file")


def test_an_error_that_code_of_others_makes_of_an_interrupt_is_one() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, minding_interrupts():
        with suppress(KeyboardInterrupt):
            press()
        raise AttributeError("partially initialized module")
    assert isinstance(caught.value.__cause__, AttributeError)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_whoever_has_a_handler_of_their_own_keeps_it() -> None:
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    with minding_interrupts():
        press()
    with holding_interrupts():
        press()
        assert pressed == [signal.SIGINT]
    assert pressed == [signal.SIGINT] * 2


def test_threads_are_let_alone() -> None:
    seen = []

    def look() -> None:
        with holding_interrupts(), minding_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
