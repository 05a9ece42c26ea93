"""The folders are the architecture: imports point one way, modules say what they are for, files are small."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
GOLDEN = ROOT / "tests" / "golden" / "data"

# What each package may import besides itself. A package that is not here does not exist yet: add its line.
MAY_IMPORT = {
    "errors": set(),
    "clock": set(),
    "interrupts": set(),
    "model": {"errors", "clock"},
    "format": {"errors", "clock", "model"},
    "kernels": {"errors", "clock", "interrupts", "model", "format"},
    "files": {"errors", "clock"},
    "log": {"errors", "clock", "model", "format", "kernels", "files"},
    "store": {"errors", "clock", "model", "format", "kernels", "files", "log"},
    "timers": {"errors", "clock", "model", "format", "kernels", "files", "log", "store"},
    "compaction": {"errors", "clock", "model", "format", "files", "log", "store"},
    "filters": {"errors", "model"},
    "scan": {"errors", "clock", "model", "format", "kernels", "files", "log", "filters", "client"},
    "jobs": {
        *("errors", "clock", "model", "format", "kernels", "files", "log", "store", "filters", "client", "scan"),
        "compaction",
    },
    "archive": {
        *("errors", "clock", "model", "format", "kernels", "files", "log", "store", "filters", "client", "scan"),
        "jobs",
    },
    "net": {"errors", "clock", "model", "format", "kernels"},
    "rpc": {"errors", "clock", "model", "format"},
    "access": {"errors", "clock", "model", "format", "files", "rpc"},
    "broker": {
        *("errors", "clock", "model", "filters", "format", "kernels", "files", "log", "store", "timers", "rpc"),
        *("access", "compaction"),
    },
    "nameserver": {"errors", "clock", "model", "format", "files", "rpc", "access"},
    "client": {"errors", "clock", "model", "format", "net"},
    "admin": {"errors", "clock", "model", "format", "net", "client"},
    "server": {
        *("errors", "clock", "model", "format", "kernels", "files", "log", "store", "net", "client", "rpc", "access"),
        *("broker", "nameserver", "__version__"),
    },
    "cli": {
        *("errors", "clock", "model", "format", "kernels", "files", "log", "store", "net", "client", "admin"),
        *("server", "jobs", "archive", "scan", "compaction", "interrupts", "__version__"),
    },
    "__main__": {"cli"},
    "": {"errors", "clock", "model", "kernels", "store", "client"},  # embermq/__init__.py: the public names
    "embermq_spark": {
        *("errors", "clock", "model", "filters", "format", "kernels", "files", "log", "store", "client", "scan"),
        *("admin", "jobs", "archive", "compaction"),
    },
    "pyspark_embermq": set(),
}
MAY_HAVE_DEPENDENCIES = {"kernels", "server", "embermq_spark", "pyspark_embermq"}
WITH_KERNELS = "Only loaded where kernels are."  # what modules say that may use numpy's arrays, too
WITH_ARROW = "Only loaded where pyarrow is."  # what modules say that may use pyarrow, and numpy with it
WITH_TABLES = re.compile(r"Only loaded where (deltalake|pyiceberg) is, and pyarrow with it\.")
WITH_ROCKSDICT = "Only loaded where rocksdict is."
UNFINISHED_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
LARGEST_FILE = 500

GENERATED = {SOURCE / "embermq" / "filters" / "sql_parser.py"}  # made by lark

MODULES = sorted(set(SOURCE.rglob("*.py")) - GENERATED)


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def package_of(path: Path) -> str:
    """`store` for embermq/store/reader.py, `errors` for embermq/errors.py, `` for embermq/__init__.py.

    Of other packages, their own name.
    """
    top, *inside = path.relative_to(SOURCE).parts
    if top != "embermq":
        return top
    return inside[0] if len(inside) > 1 else path.stem.removeprefix("__init__")


def imported_modules(path: Path) -> set[str]:
    return set(iter_imports(path.read_text(), inside=path.relative_to(SOURCE).parts[:-1]))


def iter_imports(source: str, *, inside: tuple[str, ...]) -> Iterator[str]:
    """The full name of every module that `source`, of the package `inside`, imports anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = inside[: len(inside) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else ())))
            yield from ((f"{module}.{alias.name}" if module == "embermq" else module) for alias in node.names)


def test_late_relative_and_guarded_imports_are_seen_too() -> None:
    source = """
import struct, os.path
from ..model import topic
from . import dispatcher
from embermq import log
if TYPE_CHECKING:
    from embermq.broker.router import answer
def late():
    import numpy as np
"""
    assert set(iter_imports(source, inside=("embermq", "store"))) == {
        *("struct", "os.path", "numpy"),
        *("embermq.model", "embermq.store", "embermq.log", "embermq.broker.router"),
    }


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    package = package_of(path)
    assert package in MAY_IMPORT, f"{name_of(path)}: add the package {package!r} to MAY_IMPORT"
    parts = [module.split(".") for module in imported_modules(path)]
    used = {names[1] if len(names) > 1 else "" for names in parts if names[0] == "embermq"}
    assert used - {package} - MAY_IMPORT[package] == set()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_of_the_store_needs_the_standard_library_alone(path: Path) -> None:
    used = {module.split(".")[0] for module in imported_modules(path)}
    outside = used - sys.stdlib_module_names - {"embermq"}
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    if WITH_KERNELS in said:
        outside -= {"numpy"}
    if WITH_ARROW in said:
        outside -= {"numpy", "pyarrow", "fsspec"}
    if with_tables := WITH_TABLES.search(said):
        outside -= {"pyarrow", with_tables[1]}
    if WITH_ROCKSDICT in said:
        outside -= {"rocksdict"}
    assert outside == set() or package_of(path) in MAY_HAVE_DEPENDENCIES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_no_module_is_named_after_nothing() -> None:
    names = {part for path in MODULES for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert names & UNFINISHED_NAMES == set()


def tracked_files() -> list[Path]:
    """What is in the repository or about to be, RocketMQ's own golden data aside."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        output = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        paths = [ROOT / name for name in output.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive: no repository, or no git
        hidden = {".git", ".venv", ".cache", "__pycache__"}
        paths = [path for path in ROOT.rglob("*") if not hidden & set(path.relative_to(ROOT).parts)]
    return [path for path in paths if path.is_file() and not path.is_relative_to(GOLDEN)]


def test_no_python_file_is_two_files_in_one() -> None:
    files = [path for path in tracked_files() if path.suffix == ".py" and path not in GENERATED]
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert {name: size for name, size in sizes.items() if size > LARGEST_FILE} == {}


MACHINE = re.compile(r"(?<![\w.])/(?:work|root|home|Users)/")
REGISTRY = re.compile(r"maven\.org|repo\.maven\.|pythonhosted|pypi\.org|npmjs\.|golang\.org|crates\.io")


def test_no_file_names_a_machine_or_a_package_registry() -> None:
    found = []
    for path in tracked_files():
        if path == Path(__file__) or path.name in ("go.mod", "go.sum"):  # Go's packages are named after hosts
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if MACHINE.search(line) or REGISTRY.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []
