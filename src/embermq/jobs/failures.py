"""The error of a task, on its way from the process that it failed in."""

from __future__ import annotations

import traceback
from typing import NamedTuple

from embermq.errors import EmberError
from embermq.jobs.errors import TaskFailed


class Failure(NamedTuple):
    """An error as plain data: some errors cannot be pickled, and some only to be made wrongly."""

    kind: type[EmberError] | None
    text: str
    facts: dict[str, object]  # what the error knows, besides its text
    system: OSError | None  # the error itself, if it is the system's

    @classmethod
    def of(cls, error: Exception) -> Failure:
        if isinstance(error, EmberError):
            return cls(type(error), str(error), dict(vars(error)), None)
        if isinstance(error, OSError) and type(error).__module__ == "builtins":
            return cls(None, str(error), {}, error)
        last = "".join(traceback.format_exception(error)[-3:])
        return cls(None, " ".join(f"{type(error).__name__}: {error}; {last}".split()), {}, None)

    def to_error(self) -> Exception:
        """The error as it was raised; TaskFailed if it is nothing that we foresaw."""
        if self.system is not None:
            return self.system
        if self.kind is None:
            return TaskFailed(self.text)
        error = self.kind.__new__(self.kind)  # not called, for what it would be called with is not known any more
        error.args = (self.text,)
        vars(error).update(self.facts)
        return error
