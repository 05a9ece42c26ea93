"""Faults at chosen system calls, and at stores into mapped files.

    with Faults() as faults:
        faults.add(fail(errno.EIO), call="fdatasync", at=3)
        …

While it is entered, every call below is counted by kind and may be led through a rule:
a rule kills the process before, after or half-way through the call, lets it fail or
makes it slow. Calls are those of Python's `os`, so what the kernel does by itself, such
as writing back a page, is not seen: for that there is test_power_loss.py.

    create             a file that is new         pwrite, ftruncate, posix_fallocate
    fdatasync, fsync                              replace, link, unlink, mkdir, rmdir
    pwritev            how `sync` writes its log  store: bytes put into a mapped file
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from embermq.files import memory

DESCRIPTOR_CALLS = ("fdatasync", "fsync", "pwrite", "pwritev", "ftruncate", "posix_fallocate")
PATH_CALLS = ("replace", "link", "unlink", "mkdir", "rmdir")
CALLS = ("create", *DESCRIPTOR_CALLS, *PATH_CALLS, "store")
TEARABLE = ("pwrite", "pwritev", "store")  # calls that can end half-way
SYNC_CALLS = {"sync": "pwritev", "async": "fdatasync", "pooled": "fdatasync"}  # that bring the log to the disk


@dataclass(frozen=True, slots=True)
class Call:
    """One call on its way."""

    kind: str
    number: int  # of its kind, from 1 on
    path: str
    proceed: Callable[[], Any]
    half: Callable[[], Any]  # the first half of it, for those that can be torn


Act = Callable[[Call], Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to which calls."""

    act: Act
    kind: str
    at: int | None
    since: int
    path: str

    def applies(self, call: Call) -> bool:
        if call.kind != self.kind or self.path not in call.path:
            return False
        return call.number == self.at if self.at is not None else call.number >= self.since


def die() -> NoReturn:
    """What `kill -9` does, to the whole process at once."""
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # another thread may get here before the signal does
        signal.pause()


def die_before(call: Call) -> NoReturn:
    die()


def die_after(call: Call) -> NoReturn:
    call.proceed()
    die()


def die_halfway(call: Call) -> NoReturn:
    call.half()
    die()


DEATHS: dict[str, Act] = {"before": die_before, "after": die_after, "halfway": die_halfway}


def fail(number: int) -> Act:
    """The call is not made and answers with this errno."""

    def act(call: Call) -> NoReturn:
        raise OSError(number, os.strerror(number), call.path)

    return act


def slow(seconds: float) -> Act:
    """The call takes this much longer."""

    def act(call: Call) -> Any:
        time.sleep(seconds)
        return call.proceed()

    return act


class Faults:
    """Rules, and what was called since. One at a time per process."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.calls: list[tuple[str, str]] = []  # kind and path, in their order
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._undo: list[Callable[[], None]] = []

    def add(self, act: Act, *, call: str, at: int | None = None, since: int = 1, path: str = "") -> None:
        """Lead the `at`-th call of a kind, or all of them from the `since`-th on, through `act`.

        With `path` only calls for files whose path contains it, though all are counted.
        """
        assert call in CALLS, call
        self._rules.append(Rule(act, call, at, since, path))

    def clear(self) -> None:
        """No more faults."""
        self._rules.clear()

    def __enter__(self) -> Self:
        for name in DESCRIPTOR_CALLS:
            self._patch(os, name, self._wrap_descriptor_call(name))
        for name in PATH_CALLS:
            self._patch(os, name, self._wrap_path_call(name))
        self._patch(os, "open", self._wrap_open())
        watched = _watched_map(self)
        self._patch(mmap, "mmap", watched)
        self._patch(memory, "_map", self._wrap_map(watched))
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()

    def lead(self, kind: str, path: str, proceed: Callable[[], Any], half: Callable[[], Any] = lambda: None) -> Any:
        """Count a call, and make it as the rules say."""
        with self._lock:
            self.counts[kind] += 1
            self.calls.append((kind, path))
            call = Call(kind, self.counts[kind], path, proceed, half)
            act = next((rule.act for rule in self._rules if rule.applies(call)), None)
        return proceed() if act is None else act(call)

    def _patch(self, module: Any, name: str, value: Any) -> None:
        original = getattr(module, name)
        setattr(module, name, value)
        self._undo.append(lambda: setattr(module, name, original))

    def _wrap_descriptor_call(self, name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def wrapped(descriptor: int, *arguments: Any) -> Any:
            def half() -> Any:
                data = b"".join(arguments[0]) if name == "pwritev" else bytes(arguments[0])
                part = data[: len(data) // 2]
                return original(descriptor, [part] if name == "pwritev" else part, *arguments[1:])

            return self.lead(name, path_of(descriptor), lambda: original(descriptor, *arguments), half)

        return wrapped

    def _wrap_path_call(self, name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            path = os.fspath(arguments[-1] if name in ("replace", "link") else arguments[0])
            return self.lead(name, str(path), lambda: original(*arguments, **options))

        return wrapped

    def _wrap_open(self) -> Callable[..., int]:
        original = os.open

        def wrapped(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            def proceed() -> int:
                return original(path, flags, *arguments, **options)

            if not flags & os.O_CREAT or os.path.exists(path):
                return proceed()
            descriptor: int = self.lead("create", os.fspath(path), proceed)
            return descriptor

        return wrapped

    def _wrap_map(self, watched: type[mmap.mmap]) -> Callable[..., Any]:
        original = memory._map

        def wrapped(descriptor: int, size: int, *, read_only: bool) -> Any:
            return original(descriptor, size, read_only=True) if read_only else watched(descriptor, size)

        return wrapped


def path_of(descriptor: int) -> str:
    """The path that a descriptor was opened with."""
    return os.readlink(f"/proc/self/fd/{descriptor}") if descriptor >= 0 else ""


def _watched_map(faults: Faults) -> type[mmap.mmap]:
    """A class of maps that tells `faults` of every store, and can all that is asked of a view of one."""

    class WatchedMap(mmap.mmap):
        path: str

        @property
        def obj(self) -> ctypes.Array[ctypes.c_ubyte]:
            return (ctypes.c_ubyte * len(self)).from_buffer(self)

        def toreadonly(self) -> memoryview:
            return memoryview(self).toreadonly()

        def __new__(cls, descriptor: int, *arguments: Any, **options: Any) -> Self:
            made = super().__new__(cls, descriptor, *arguments, **options)
            made.path = path_of(descriptor)
            return made

        def __setitem__(self, place: Any, data: Any) -> None:
            def half() -> None:
                middle = len(data) // 2
                super(WatchedMap, self).__setitem__(slice(place.start, place.start + middle), data[:middle])

            faults.lead("store", self.path, lambda: super(WatchedMap, self).__setitem__(place, data), half)

    return WatchedMap
