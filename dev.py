#!/usr/bin/env python3
"""Everything a developer does here. Needs Python 3.11 or newer, and nothing else.

    python3 dev.py demo             set everything up, then show the store at work; ends by itself
    python3 dev.py test             set everything up, then run every check and test
    python3 dev.py test --all       the same with the slow sweeps
    python3 dev.py test ARGS        only pytest, with these arguments: paths, -k WORD, -x, …
    python3 dev.py check            format, lint and types alone
    python3 dev.py fix              mend format and lint where that can be done by itself
    python3 dev.py bench [NAME]     measure: all of bench/, or bench/NAME.py; `send` and `consume` are parts of peers

What it makes is in .venv/ and .cache/, both ignored by git; delete them to start afresh.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "embermq-installed"
CONSTRAINTS = "constraints.txt"
OLDEST_PYTHON = (3, 11)
PARTS_OF_PEERS = {"send": "send-4x128", "consume": "pull-32,consume"}  # for daily use, with the measures of each
DAILY_PEERS = "ember-async,ember-plain,redis-everysec,nats,rocketmq-async"


def main() -> int:
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        sys.exit(f"dev.py: this is Python {sys.version.split()[0]}; start it with {wanted} or newer")
    command, *arguments = sys.argv[1:] or [""]
    if command not in COMMANDS:
        print(__doc__)
        return 0 if command in ("-h", "--help", "help") else 2
    return COMMANDS[command](arguments)


def demo(arguments: list[str]) -> int:
    set_up("fast", "spark")
    return run(PYTHON, "examples/demo.py", *arguments)


def test(arguments: list[str]) -> int:
    set_up("dev", "fast", "spark", "archive", "plot")
    chosen = [argument for argument in arguments if argument != "--all"]
    if chosen:
        return run(PYTHON, "-m", "pytest", *arguments)
    failed = check([])
    if failed:
        return failed
    prepare_compat()
    prepare_kernels()
    processes = (os.cpu_count() or 1) + 1  # one more than cores, because many tests wait
    options = ["-n", str(processes), *arguments]
    failed = run(PYTHON, "-m", "pytest", *options)
    if "--all" in arguments:  # once more as a machine without numba runs it
        failed = (
            run(PYTHON, "-m", "pytest", *options, "tests/compat", "tests/e2e", env={"EMBERMQ_ENGINE": "off"}) or failed
        )
    return failed


def check(arguments: list[str]) -> int:
    set_up("dev", "fast", "spark", "archive", "plot")
    results = [
        run(PYTHON, "-m", "ruff", "format", "--check", "--quiet", *arguments),
        run(PYTHON, "-m", "ruff", "check", "--quiet", *arguments),
        run(PYTHON, "-m", "mypy", *arguments),
    ]
    if any(results[:2]):
        say("`python3 dev.py fix` mends the format, and some of the rest")
    return int(any(results))


def fix(arguments: list[str]) -> int:
    set_up("dev")
    left = run(PYTHON, "-m", "ruff", "check", "--fix", *arguments)
    return run(PYTHON, "-m", "ruff", "format", *arguments) or left


def bench(arguments: list[str]) -> int:
    known = sorted(path.stem for path in (ROOT / "bench").glob("[!_]*.py"))
    named = bool(arguments) and not arguments[0].startswith("-")
    names, rest = ([arguments[0]], arguments[1:]) if named else (known, arguments)
    if named and names[0] in PARTS_OF_PEERS:
        chosen = ["--only", DAILY_PEERS, "--measures", PARTS_OF_PEERS[names[0]], "--rounds", "3"]
        names, rest = ["peers"], [*chosen, *rest]
    if not set(names) <= set(known):
        say(f"no bench/{names[0]}.py; there are: {', '.join([*known, *PARTS_OF_PEERS])}")
        return 2
    set_up("dev", "fast", "spark", "archive", "plot")
    if not {"peers", "growth"}.isdisjoint(names):
        prepare_peers(everything="peers" in names)
    return int(any([run(PYTHON, "-m", f"bench.{name}", *rest) for name in names]))


COMMANDS = {"demo": demo, "test": test, "check": check, "fix": fix, "bench": bench}


def set_up(*extras: str) -> None:
    """Have .venv with the package and these extras in it; does nothing when all is in place."""
    source, found = installed()
    if source == fingerprint() and found.issuperset(extras):
        return
    make_environment()
    names = sorted(found.union(extras))
    target = f".[{','.join(names)}]" if names else "."
    say(f"installing {target} into .venv")
    # Both names, because newer versions of pip keep a second list for what builds the package.
    fixed = {"PIP_CONSTRAINT": CONSTRAINTS, "PIP_BUILD_CONSTRAINT": CONSTRAINTS}
    pip = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if run(*pip, "--editable", target, env=fixed):
        sys.exit("dev.py: pip could not install the package; its message is above")
    STAMP.write_text("\n".join([fingerprint(), *names]))


def fingerprint() -> str:
    """Changes whenever the package must be installed anew."""
    parts = [str(ROOT).encode(), *((ROOT / name).read_bytes() for name in ("pyproject.toml", CONSTRAINTS))]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def installed() -> tuple[str, set[str]]:
    """The fingerprint and the extras of what is in .venv."""
    if not (PYTHON.exists() and STAMP.exists()):
        return "", set()
    source, *extras = STAMP.read_text().split("\n")
    return source, set(extras)


def make_environment() -> None:
    """Make .venv, unless there is one that works."""
    if PYTHON.exists() and run(PYTHON, "-c", "import pip") == 0:
        return
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if not install_packages([package], reason="this Python cannot make virtual environments"):
            sys.exit(1)
    say("making .venv")
    if run(sys.executable, "-m", "venv", "--clear", VENV):
        sys.exit("dev.py: no virtual environment could be made; the message is above")


def prepare_compat() -> None:
    """Fetch RocketMQ and build the tools that the compatibility tests talk to. They skip if this cannot be."""
    java = shutil.which("javac") and shutil.which("mvn")
    reason = "the tests with Spark and RocketMQ need Java 17 and Maven, and are skipped without them"
    if java or install_packages(["openjdk-17-jdk-headless", "maven"], reason=reason):
        run(PYTHON, "tests/compat/store_tool.py")
    reason = "the tests with RocketMQ's Go client need Go, and are skipped without it"
    if shutil.which("go") or install_packages(["golang-go"], reason=reason):
        run(PYTHON, "tests/compat/go_tool.py")


def prepare_kernels() -> None:
    """Compile the kernels once, before several tests need them at the same time."""
    run(PYTHON, "-c", "import tests.conftest; from embermq.kernels import loading; loading.load()")


def prepare_peers(*, everything: bool) -> None:
    """Install what builds the load generator, and the servers that EmberMQ is measured beside, if `everything`."""
    packages = {"gcc": "gcc libc6-dev"}
    if everything:
        packages |= {"redis-server": "redis-server", "nats-server": "nats-server"}
        packages |= {"javac": "openjdk-17-jdk-headless", "mvn": "maven"}
    absent = [program for program in packages if not shutil.which(program)]
    if not absent:
        return
    wanted = " ".join(packages[program] for program in absent).split()
    reason = "EmberMQ is measured beside other servers, and those that are not installed are left out"
    services = [program for program in absent if program.endswith("-server")]
    if install_packages(wanted, reason=reason) and services and Path("/run/systemd/system").is_dir():
        run("systemctl", "disable", "--now", *services)  # Debian starts them; a bench starts its own


def install_packages(packages: list[str], *, reason: str) -> bool:
    """Install system packages as root on Debian; elsewhere say which ones are wanted."""
    names = " ".join(packages)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        say(f"{reason}. On Debian or Ubuntu: sudo apt-get install {names}")
        return False
    say(f"{reason}; installing {names}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "update", "-qq", env=quiet)
    failed = run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages, env=quiet)
    if failed:
        say(f"apt-get could not install {names}; its message is above")
    return not failed


def run(*command: str | Path, env: dict[str, str] | None = None) -> int:
    """Run a command to its end, its output on ours; return its exit code."""
    arguments = [str(part) for part in command]
    return subprocess.run(
        arguments, cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, check=False
    ).returncode


def say(text: str) -> None:
    print(f"dev.py: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
