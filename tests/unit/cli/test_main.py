"""What `ember` answers the shell."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import embermq
from embermq import errors
from embermq.cli import main as command
from embermq.cli.main import build_parser, main
from tests.builders import a_store, some_messages

LIMIT_S = 0.150  # what `ember --version` may take longer than Python itself


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "embermq", *arguments], capture_output=True, text=True, check=False)


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    """The exit code of a command that raises `error`."""

    def raise_it(arguments: argparse.Namespace) -> int:
        raise error

    parser = argparse.ArgumentParser()
    parser.set_defaults(run=raise_it)
    monkeypatch.setattr(command, "build_parser", lambda: parser)
    return main([])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.CorruptRecord(7, "no record"), 1),
        (errors.SyncFailed(Path("x"), OSError(5, "I/O error")), 1),
        (errors.StoreMissing(Path("x")), 3),
        (errors.TopicNotFound("orders"), 3),
        (errors.GroupNotFound("billing"), 3),
        (errors.MessageNotFound("no message"), 3),
        (errors.NotPermitted("no"), 4),
        (errors.Refused(1, "no", asked="it"), 4),
        (errors.CallTimeout("late"), 5),
        (errors.ConnectionLost("gone"), 1),
        (FileNotFoundError(2, "No such file", "x"), 3),
        (errors.StoreLocked("in use"), 4),
        (PermissionError(13, "Permission denied", "x"), 4),
        (errors.FlushTimeout(Path("x"), position=0, waited_ms=5), 5),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    assert fail_with(monkeypatch, error) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("ember: ")
    assert printed.err.count("\n") == 1


def test_an_error_of_many_lines_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, errors.EmberError("two\n  lines"))
    assert capsys.readouterr().err == "ember: two lines\n"


def test_our_own_mistakes_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_with(monkeypatch, ZeroDivisionError())


def test_an_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert fail_with(monkeypatch, KeyboardInterrupt()) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["store"], ["store", "verify"], ["store", "info", "x", "--no"]]
)
def test_wrong_usage_is_2_and_says_what_is_right(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "usage: ember" in printed.err


VERBS = [
    *(f"store {verb}" for verb in ("info", "dump", "verify", "rebuild", "compare")),
    *(f"topic {verb}" for verb in ("list", "show", "create", "update", "delete")),
    *(f"group {verb}" for verb in ("list", "show", "create", "delete", "reset")),
    *("bench send", "bench consume"),
    *("message get", "message find", "send", "tail", "serve", "namesrv", "broker"),
]


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "--help"]) == 0
    assert f"example: ember {verb}" in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ember {embermq.__version__}\n"


def test_the_module_can_be_run() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ember {embermq.__version__}\n", "")


def test_the_parser_needs_nothing_but_the_commands() -> None:
    code = "import sys, embermq.cli.main as m; m.build_parser(); print(*[n for n in sys.modules if n[:7] == 'embermq'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"embermq.cli.main", "embermq.cli.store", "embermq.cli.tail"} <= loaded
    assert {name for name in loaded if not name.startswith("embermq.cli")} == {"embermq", "embermq.interrupts"}


def cpu_seconds(*command_line: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command_line, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_version_is_there_at_once() -> None:
    bare = min(cpu_seconds(sys.executable, "-c", "0") for _ in range(3))
    ember = min(cpu_seconds(sys.executable, "-m", "embermq", "--version") for _ in range(3))
    assert ember - bare < LIMIT_S


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", log_file_size=1 << 20) as store:
        store.put_many(some_messages(2000))  # more than a pipe holds
    reading, writing = os.pipe()
    dump = [sys.executable, "-m", "embermq", "store", "dump", str(tmp_path / "store"), "--json"]
    with subprocess.Popen(dump, stdout=writing, stderr=subprocess.PIPE, text=True) as process:
        os.close(writing)
        os.read(reading, 100)
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_options_cannot_be_abbreviated(tmp_path: Path) -> None:
    assert main(["store", "info", str(tmp_path), "--js"]) == 2


def test_the_tree_of_commands_is_built_anew_each_time() -> None:
    assert build_parser() is not build_parser()
