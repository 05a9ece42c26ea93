"""RocketMQ's own filters, for tests: the process in java/…/FilterTool.java, driven from here.

python -m tests.compat.filter_tool      ask for the table in tests/filter_cases.py, and keep the answers for unit tests
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.compat.store_tool import JVM, class_path
from tests.filter_cases import ANSWERS as RECORD
from tests.filter_cases import MESSAGES, texts

ANSWERS = {"true": True, "false": False, "null": None, "error": "error"}
_AT_ONCE = 50  # requests before answers are read; more could fill both pipes


class SqlAnswer(NamedTuple):
    """What RocketMQ made of an expression: why it refused it, or what it is for each message."""

    refused: str | None
    is_whole: bool  # whether it was read to its end
    answers: list[Any]  # True, False, None or "error"


class FilterTool:
    """One Java process; it ends when it is closed."""

    def __init__(self, classes: str, home: Path) -> None:
        self._log = home / "filter-tool.log"
        command = ["java", *JVM, f"-Duser.home={home}", "-cp", classes, "embermq.compat.FilterTool"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )

    def sql(self, text: str, messages: Sequence[Mapping[str, str]] = ()) -> SqlAnswer:
        (answer,) = self.many([(text, messages)])
        return answer

    def many(self, asked: Iterable[tuple[str, Sequence[Mapping[str, str]]]]) -> Iterator[SqlAnswer]:
        """The answers to many expressions, in their order."""
        requests = [{"sql": text, "messages": list(messages)} for text, messages in asked]
        for begin in range(0, len(requests), _AT_ONCE):
            for answer in self._ask(requests[begin : begin + _AT_ONCE]):
                answers = [ANSWERS[each] for each in answer.get("answers", ())]
                yield SqlAnswer(answer.get("refused"), answer.get("isWhole", False), answers)

    def tags(self, text: str) -> list[str] | None:
        """The tags of a tag expression, none for every message; None if it is refused."""
        (answer,) = self._ask([{"tags": text}])
        return answer.get("tags")

    def _ask(self, requests: Sequence[Mapping[str, object]]) -> list[dict[str, Any]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
        self._process.stdin.flush()
        lines = [self._process.stdout.readline() for _ in requests]
        assert all(lines), f"FilterTool ended; it said\n{self._log.read_text(errors='replace')[-2000:]}"
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        self._process.communicate(timeout=10)  # it ends when its stdin does


def ask_table(tool: FilterTool) -> list[dict[str, Any]]:
    """The filters of the table, each with what RocketMQ says to it: `null` for refused, or for not read to its end."""
    asked = texts()
    found = tool.many([(text, MESSAGES) for text in asked])
    return [
        {"sql": text, "answers": answer.answers if answer.is_whole else None}
        for text, answer in zip(asked, found, strict=True)
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        tool = FilterTool(class_path(), Path(home))
        lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in ask_table(tool))
        tool.close()
    RECORD.write_text(f"[\n{lines}\n]\n")
