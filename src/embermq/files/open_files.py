"""How many files a process may have open. Every mapped file takes two descriptors: ours and the map's."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)


def allow_open_files(count: int) -> None:
    """Raise this process's own limit so that `count` files can be open, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or count <= soft:
        return
    try:
        # Who may raise the hard limit, may.
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (count, hard if hard == resource.RLIM_INFINITY else max(count, hard))
        )
    except (ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        log.warning("open files limit=%d wanted=%d; raise it with `ulimit -Hn`", hard, count)
