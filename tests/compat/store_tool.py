"""RocketMQ's own message store, for tests: fetched through Maven, driven by the program in java/.

    python tests/compat/store_tool.py       fetch and build now, so that the tests need not

What is fetched and built stays in .cache/compat, under a name made from its sources. The requests and
answers are described in java/src/embermq/compat/StoreTool.java and Put.java.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
JAVA = HERE / "java"
CACHE = HERE.parents[1] / ".cache" / "compat"
OLDEST_JAVA = 17
ANSWER_TIMEOUT = 90.0  # seconds

JVM = (
    *("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:+DisplayVMOutputToStderr"),  # stdout is for answers
    # RocketMQ reaches into these to release its mapped files.
    *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"),
    *(
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
        "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    ),
)

# Small files, so that a few messages already fill several of them.
SMALL = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 50,
    "maxIndexNum": 200,
}


class StoreToolError(Exception):
    """RocketMQ refused, or its process ended."""


def missing() -> str | None:
    """Why RocketMQ cannot be run here; None if it can."""
    absent = [name for name in ("javac", "java", "mvn") if not shutil.which(name)]
    if absent:
        return f"needs Java {OLDEST_JAVA} and Maven; not found: {', '.join(absent)}"
    said = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True)
    version = re.search(r"\d+", said.stdout + said.stderr)
    if version is None or int(version[0]) < OLDEST_JAVA:
        return f"needs Java {OLDEST_JAVA} or newer; found {said.stdout.strip() or said.stderr.strip()}"
    return None


def class_path() -> str:
    """Fetch the jars and compile the program, unless that was done; safe in several processes at once."""
    sources = sorted(JAVA.glob("src/**/*.java"))
    jars = CACHE / f"jars-{_digest([JAVA / 'pom.xml'])}"
    classes = CACHE / f"classes-{_digest([JAVA / 'pom.xml', *sources])}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            print("fetching RocketMQ through Maven, once", file=sys.stderr, flush=True)
            _make(
                jars,
                ["mvn", "-q", "-B", "-f", JAVA / "pom.xml", "dependency:copy-dependencies"],
                "-DoutputDirectory=",
            )
        if not classes.exists():
            _make(
                classes,
                [
                    "javac",
                    "-nowarn",
                    "-proc:none",
                    "--release",
                    OLDEST_JAVA,
                    "-cp",
                    f"{jars}/*",
                    *sources,
                    "-d",
                ],
            )
    return f"{classes}{os.pathsep}{jars}/*"


def _digest(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _make(target: Path, command: Sequence[object], option: str | None = None) -> None:
    """Let `command` fill a new directory, and give it its name only when it is whole."""
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=CACHE))
    last = [f"{option}{unfinished}"] if option else [str(unfinished)]
    done = subprocess.run(
        [*map(str, command), *last],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode:
        shutil.rmtree(unfinished)
        raise StoreToolError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    unfinished.rename(target)


class StoreTool:
    """One process that opens stores with RocketMQ; started when needed, and again after a crash."""

    def __init__(
        self, classes: str, home: Path, *, jvm: Sequence[str] = JVM, answer_timeout: float = ANSWER_TIMEOUT
    ) -> None:
        self._classes = classes
        self._jvm = jvm
        self._answer_timeout = answer_timeout  # seconds
        self._home = home  # RocketMQ keeps its logs in the home directory
        self._process: subprocess.Popen[bytes] | None = None

    def write(
        self,
        directory: Path,
        messages: Sequence[Mapping[str, Any]],
        *,
        config: Mapping[str, object] = SMALL,
        topics: Sequence[Mapping[str, Any]] = (),
        crash: bool = False,
        dispatch: bool = True,
    ) -> list[dict[str, Any]]:
        """Put messages into the store at `directory` and close it; what came of each put.

        With `crash` the process ends without closing anything; without `dispatch` it does not wait
        for queues and index before that.
        """
        spec = {
            "config": dict(config),
            "topics": [dict(topic) for topic in topics],
            "messages": list(messages),
        }
        spec |= {"dispatch": dispatch, "end": "halt" if crash else "shutdown"}
        results: list[dict[str, Any]] = self._ask("write", directory, spec)
        if crash:
            self.close()
        return results

    def read(
        self,
        directory: Path,
        *,
        config: Mapping[str, object] = SMALL,
        queries: Sequence[Mapping[str, Any]] = (),
        times: Sequence[Mapping[str, Any]] = (),
        queues: Sequence[tuple[str, int]] = (),
        start: bool = True,
    ) -> dict[str, Any]:
        """Open the store, recover it if need be, and close it cleanly; all that RocketMQ saw in it.

        Without `start` it is loaded and left: nothing is dispatched, and no file closed. Of queues in a RocksDB it
        tells those that `queues` names.
        """
        spec = {"config": dict(config), "queries": list(queries), "times": list(times), "start": start}
        spec["queues"] = [list(place) for place in queues]
        facts: dict[str, Any] = self._ask("read", directory, spec)
        return facts

    def topics(self, directory: Path, add: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Load config/topics.json, add topics and save it if there are any; what is in it then."""
        table: dict[str, Any] = self._ask("topics", directory, {"topics": [dict(topic) for topic in add]})
        return table

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.communicate(timeout=10)  # it ends when its stdin does
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def _ask(self, command: str, directory: Path, spec: Mapping[str, object]) -> Any:
        request = {"command": command, "directory": str(directory.absolute()), "spec": spec}
        answer = self._exchange(json.dumps(request).encode() + b"\n")
        if answer is None:
            raise StoreToolError(f"{command} {directory}: no answer; the process said\n{self._last_words()}")
        if "error" in answer:
            raise StoreToolError(f"{command} {directory}: {answer['error']}\n{self._last_words()}")
        return answer["result"]

    def _exchange(self, request: bytes) -> dict[str, Any] | None:
        """The answer to a request, or None, and no process any more, if it ended or took too long."""
        if self._process is None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        line = b""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.flush()
            if select.select([process.stdout], [], [], self._answer_timeout)[0]:
                line = process.stdout.readline()
        if not line:
            process.kill()
            self.close()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    @property
    def _log(self) -> Path:
        return self._home / "store-tool.log"

    def _start(self) -> subprocess.Popen[bytes]:
        command = [
            "java",
            *self._jvm,
            f"-Duser.home={self._home}",
            "-cp",
            self._classes,
            "embermq.compat.StoreTool",
            "serve",
        ]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command, cwd=self._home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=-1
            )


if __name__ == "__main__":
    reason = missing()
    if reason is None:
        class_path()
    else:
        print(f"the tests against RocketMQ will be skipped: {reason}", file=sys.stderr)
