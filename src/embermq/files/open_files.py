"""How many files a process may have open and mapped: every mapped one takes a descriptor and a map."""

from __future__ import annotations

import logging
import resource
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_WANTED: Final = 1 << 17  # descriptors; more than that buys nothing
_SHARE: Final = 0.75  # of what the system allows; the rest is for connections, the log, the index
_DEFAULT_MAPS: Final = 65_530
_MAPS_FILE: Final = Path("/proc/sys/vm/max_map_count")


def most_mapped_files() -> int:
    """How many files of queues may be mapped at once, after raising this process's own limit as far as it may."""
    return max(int(min(_allow_descriptors(), _find_most_maps()) * _SHARE), 1)


def _allow_descriptors() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError) as error:
            log.warning("open files limit=%d wanted=%d reason=%s", soft, wanted, error)
            return soft
    return _WANTED if soft == resource.RLIM_INFINITY else max(soft, wanted)


def _find_most_maps() -> int:
    try:
        return int(_MAPS_FILE.read_text())
    except (OSError, ValueError):
        return _DEFAULT_MAPS
