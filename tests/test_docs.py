"""The documents tell the truth: their snippets run, and every setting and command is in them.

In README.md, ARCHITECTURE.md and docs/*.md, the blocks of one file run from top to bottom, in one
directory that is empty at first:

    ```python    runs; its names are known to the later Python blocks of the file
    ```text      right after one of these: what it printed, word for word; … stands for anything
    ```console   lines after `$ ` run in bash, the others are their output; … as above
    ```sh        runs in bash and must succeed

A block that cannot run in a test says so: ```python no-run

A page with the comment SERVER_MARK gets a real server, at the address that it calls 127.0.0.1:9876. The page of
Spark, and blocks that say ```python spark, are run by tests/spark/test_spark_page.py, where one is.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.conftest import serving

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SPARK_PAGE = DOCS / "spark.md"
REPORTS_PAGE = DOCS / "reports.md"
README = ROOT / "README.md"
PAGES = [README, ROOT / "ARCHITECTURE.md", *sorted(set(DOCS.glob("*.md")) - {SPARK_PAGE})]
SHELL_TIMEOUT = 60.0  # seconds
SERVER_MARK = "<!-- The snippets of this page need `ember serve`. -->"
DEFAULT_ADDRESS = "127.0.0.1:9876"


class Block(NamedTuple):
    language: str
    text: str
    line: int  # of its first line, from 1
    output: str | None  # the text block right after it


FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def iter_blocks(page: str, *, has_spark: bool = False) -> Iterator[Block]:
    """The blocks of a page that are meant to run."""
    fences = list(FENCE.finditer(page))
    for fence, following in zip_longest(fences, fences[1:]):
        language, *words = fence["info"].split() or [""]
        if language not in {"python", "console", "sh"} or words == ["no-run"]:
            continue
        if words == ["spark"] and not has_spark:
            continue
        assert words in ([], ["spark"]), f"unknown word {words} after ```{language}; there are `no-run` and `spark`"
        line = page.count("\n", 0, fence.start("text")) + 1
        output = None
        if following and following["info"] == "text" and not page[fence.end() : following.start()].strip():
            output = following["text"]
        yield Block(language, fence["text"], line, output)


def iter_commands(console: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with the output shown under it."""
    before, *rest = re.split(r"^\$ ", console, flags=re.MULTILINE)
    assert not before.strip(), "a console block begins with `$ `"
    for part in rest:
        command = re.match(r"(?:[^\n]*\\\n)*[^\n]*", part)[0]  # type: ignore[index]  # it always matches
        yield command, part.removeprefix(command)


def check_output(found: str, shown: str, where: str) -> None:
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
    assert re.fullmatch(pattern, found.strip(), re.DOTALL), f"{where} prints\n{found}\nand the page shows\n{shown}"


def run_shell(command: str, where: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command],
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SHELL_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def run_page(page: str, name: str, *, has_spark: bool = False) -> None:
    """Run the blocks of a page in the current directory."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in iter_blocks(page, has_spark=has_spark):
        where = f"{name}:{block.line}"
        match block.language:
            case "python":
                printed = io.StringIO()
                code = compile("\n" * (block.line - 1) + block.text, name, "exec")
                with contextlib.redirect_stdout(printed):
                    exec(code, names)
                found = printed.getvalue()
            case "console":
                found = ""
                for command, shown in iter_commands(block.text):
                    check_output(run_shell(command, where), shown, where)
            case _:
                found = run_shell(block.text, where)
        if block.output is not None:
            check_output(found, block.output, where)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_snippet_of_a_page_runs(
    path: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if SERVER_MARK not in path.read_text():
        run_page(path.read_text(), path.name)
        return
    with serving(tmp_path_factory.mktemp("server")) as served:
        monkeypatch.setenv("EMBERMQ_NAMESRV", served.namesrv)
        run_page_with_server(path, served.namesrv)


def run_page_with_server(path: Path, namesrv: str) -> None:
    run_page(path.read_text().replace(DEFAULT_ADDRESS, namesrv), path.name)


TRUE_PAGE = """
```python
x = 6 * 7
```
```python
print("the answer is", x)
```
```text
the … is 42
```
```console
$ echo one \\
    two
one two
$ true
```
```sh
test 1 = 1
```
```python no-run
raise SystemExit
```
"""


@pytest.mark.parametrize("page", [TRUE_PAGE, "No snippet here.\n"])
def test_a_page_that_tells_the_truth_passes(page: str) -> None:
    run_page(page, "page")


@pytest.mark.parametrize(
    ("true", "false"),
    [("is 42", "is 43"), ("one two\n$", "one three\n$"), ("test 1 = 1", "test 1 = 2"), ("no-run", "norun")],
)
def test_a_page_that_does_not_tell_the_truth_fails(true: str, false: str) -> None:
    with pytest.raises(AssertionError):
        run_page(TRUE_PAGE.replace(true, false), "page")


def test_every_setting_is_documented_with_its_unit_and_consequence() -> None:
    from embermq.broker.settings import BrokerSettings
    from embermq.nameserver.settings import NameServerSettings
    from embermq.server.settings import AccessSettings, ServerSettings, TlsSettings
    from embermq.store.settings import StoreSettings

    rows = re.findall(r"^\| `(\w+)` \|(.*)$", (DOCS / "settings.md").read_text(), re.MULTILINE)
    kinds = (ServerSettings, BrokerSettings, StoreSettings, TlsSettings, AccessSettings, NameServerSettings)
    fields = [field for kind in kinds for field in dataclasses.fields(kind)]
    assert [name for name, _ in rows] == [field.name for field in fields]
    for field, (_, row) in zip(fields, rows, strict=True):
        assert field.metadata["unit"] in row
        assert field.metadata["consequence"] in row


def iter_leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of the commands themselves, without the nouns they are grouped under."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for inner in group.choices.values():
            yield from iter_leaves(inner)


def test_every_command_and_option_is_documented() -> None:
    from embermq.cli.main import build_parser

    page = (DOCS / "cli.md").read_text()
    commands = list(iter_leaves(build_parser()))
    assert len(commands) > 1
    for command in commands:
        assert command.prog in page
        options = {name for action in command._actions for name in action.option_strings if name[:2] == "--"}
        assert {name for name in options if name not in page} == set(), command.prog
