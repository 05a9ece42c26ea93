"""Programs that end at one step after the other: each life is a fork, so it costs no start of Python."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

KILLED = -signal.SIGKILL
INTERRUPTED = 130  # as a shell says it


class Steps:
    """Counts what changes something, and sends this process a signal before one of them."""

    def __init__(self, last: int, sign: signal.Signals = signal.SIGKILL) -> None:
        self._left = last
        self._sign = sign

    def watch(self, owner: Any, *names: str) -> None:
        """Count the calls of methods or functions."""
        for name in names:
            setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            if self._left == 0:
                os.kill(os.getpid(), self._sign)
            self._left -= 1
            return inner(*arguments, **named)

        return counted


def live(work: Callable[[], None]) -> int:
    """Run `work` in a process of its own; its exit code, or minus the signal that ended it."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        except KeyboardInterrupt:
            code = INTERRUPTED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
