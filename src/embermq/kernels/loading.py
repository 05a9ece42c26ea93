"""Makes all kernels ready to be called: loads their compiled code, or compiles it first.

A load takes about a second, compiling some twenty, and both may be done in a background thread: plain code serves
meanwhile. What is missing is compiled by a process of its own, at low priority, so that neither its time nor its
memory is taken from this one. What only a load needs is imported by it: this module is imported by every process.

    EMBERMQ_ENGINE=off      nothing is ever loaded: as if numba were not installed
    EMBERMQ_CACHE=<folder>  where compiled code is kept, see `cache_folder`; the user's cache folder unless set
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from embermq.errors import CacheUnsafe, CompileFailed, EngineError, EngineMissing
from embermq.interrupts import holding_interrupts

if TYPE_CHECKING:
    from subprocess import Popen

log = logging.getLogger(__name__)

_ENGINE: Final = "EMBERMQ_ENGINE"
_NEEDED: Final = ("numba", "llvmlite", "numpy")
_COMPILE: Final = """
import os, sys
sys.path[:] = sys.argv[2:]
os.nice(10)
from embermq.kernels.loading import compile_into
compile_into(sys.argv[1])
"""

_lock: Final = threading.Lock()
_compiling: Final[list[Popen[str]]] = []  # the process that does, while there is one
_loaded: Final = threading.Event()


def is_wanted() -> bool:
    """Whether kernels may be used: EMBERMQ_ENGINE is not off."""
    return os.environ.get(_ENGINE) != "off"


def is_installed() -> bool:
    """Whether kernels can be loaded here: what they need can be found, and EMBERMQ_ENGINE is not off."""
    return is_wanted() and all(map(importlib.util.find_spec, _NEEDED))


def cache_directory() -> Path:
    """Where compiled kernels are kept; the folder may not be there yet."""
    from embermq.kernels.cache_folder import find_folder

    return find_folder()


def is_warm() -> bool:
    """Whether a load would find everything compiled."""
    from embermq.kernels.cache_folder import find_folder, is_complete

    return is_installed() and is_complete(find_folder())


def is_loaded() -> bool:
    """Whether every kernel can be imported at no cost."""
    return _loaded.is_set()


def load(unwanted: threading.Event | None = None) -> None:
    """Load all kernels, and compile them first if that is needed; once, however often and by whom it is called.

    Raises EngineError, ImportError or OSError; then nothing is loaded, and another call tries again. So it does
    soon after `unwanted` is set: a process that wants to end does not wait for what it will not use.
    """
    with _lock:
        if _loaded.is_set():
            return
        if not is_installed():
            raise EngineMissing("numba is not installed (extra `fast`), or EMBERMQ_ENGINE is off")
        _load(unwanted or threading.Event())
        _loaded.set()


def try_load() -> bool:
    """Load all kernels for somebody who can go on without them; whether they are there. If not, the log says why."""
    try:
        load()
    except (EngineError, ImportError, OSError) as error:
        log.warning("kernels cannot be loaded, plain code does the work error=%s", error)
        return False
    return True


def give_up() -> None:
    """End a compilation that runs, for a process that wants to end, too: whoever waits for it gets CompileFailed.

    One that is about to begin is ended by `unwanted`, which must be set before.
    """
    for process in tuple(_compiling):
        process.terminate()


def compile_into(folder: str) -> None:
    """Compile all kernels, and keep their code in `folder`. For a process of its own."""
    from embermq.kernels.cache_folder import check_private, mark_complete

    check_private(Path(folder))  # numba would take another one, which nobody knows of
    _import_all(Path(folder), threading.Event())
    mark_complete(Path(folder))


def _load(unwanted: threading.Event) -> None:
    import shutil

    from embermq.kernels.cache_folder import is_complete, mark_complete, remove_unused
    from embermq.kernels.resident_memory import release_unused

    folder, is_kept = _make_folder()
    try:
        if not is_complete(folder):
            _compile_apart(folder, unwanted)
        with holding_interrupts():
            _import_all(folder, unwanted)
        if is_kept:
            mark_complete(folder)
            for path in remove_unused(folder):
                log.info("removed former kernels folder=%s", path)
    finally:
        if not is_kept:
            shutil.rmtree(folder.parent)
    release_unused()


def _make_folder() -> tuple[Path, bool]:
    """A folder for compiled code, and whether it is for more than this once."""
    from tempfile import mkdtemp

    from embermq.kernels.cache_folder import make_private

    folder = cache_directory()
    try:
        make_private(folder)
    except (OSError, CacheUnsafe) as error:
        log.warning("no cache for kernels: each start compiles them error=%s", error)
        folder = Path(mkdtemp(prefix="embermq-")) / folder.name
        make_private(folder)
        return folder, False
    return folder, True


def _compile_apart(folder: Path, unwanted: threading.Event) -> None:
    """Compile in another process. Raises CompileFailed."""
    from subprocess import DEVNULL, PIPE, Popen

    if not sys.executable:  # Python runs inside another program: here, then
        return
    command = [sys.executable, "-c", _COMPILE, str(folder), *sys.path]
    with Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, text=True, errors="replace") as process:
        _compiling.append(process)
        if unwanted.is_set():  # before it could be ended by others
            process.terminate()
        try:
            _, said = process.communicate()
        finally:
            _compiling.remove(process)
    if process.returncode != 0:
        lines = said.strip().splitlines() or ["it said nothing"]
        raise CompileFailed(process.returncode, lines[-1])


def _import_all(folder: Path, unwanted: threading.Event) -> None:
    """Import every module with kernels; their code is found in `folder`, or put there. Raises EngineError."""
    from embermq.kernels.cache_name import kernel_files

    settings = importlib.import_module("numba").config
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)  # of others who use numba in this process, if any
    try:
        with _without_preparations():
            for path in kernel_files():
                if unwanted.is_set():
                    raise EngineError("kernels are not wanted any more")
                importlib.import_module(f"embermq.kernels.{path.stem}")
    finally:
        settings.CACHE_DIR = before


@contextmanager
def _without_preparations() -> Iterator[None]:
    """Let numba look for code before it prepares to compile, which is a third of a load, and 10 MiB.

    What is not found is compiled all the same: that prepares for itself.
    """
    cache = importlib.import_module("numba.core.caching").Cache
    runtime = importlib.import_module("numba.core.runtime").rtsys
    before = cache.load_overload

    def load_overload(self: Any, signature: Any, target: Any) -> Any:
        runtime.initialize(target)  # what compiled code is linked with
        return self._load_overload(signature, target)

    if hasattr(cache, "_load_overload"):  # it is numba's own, and may be gone some day
        cache.load_overload = load_overload
    try:
        yield
    finally:
        cache.load_overload = before


load_kernels = load  # the name it has in `embermq`
