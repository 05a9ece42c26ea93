"""Server processes that are killed and started again, on the same directory and the same ports."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

SOURCE = Path(__file__).parents[2] / "src"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


class ServerProcess:
    """`ember` with some arguments; its files and its log are in `folder`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / f"{arguments[0]}.log"
        self._folder = folder
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it, and wait until it says that it is ready; what it said."""
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "embermq", *self._arguments],
                cwd=self._folder,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
            )
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], START_TIMEOUT_S)[0], self.words()
        line = self._process.stdout.readline()
        assert line.startswith("ready "), self.words()
        return line

    def kill(self) -> None:
        """End it as the system does when it has to: without a chance to do anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as an operator does; its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        assert process is not None
        process.send_signal(number)
        code = process.wait(STOP_TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()
        self._process = None
        return code

    def words(self) -> str:
        return self.log.read_text()[-3000:]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()
