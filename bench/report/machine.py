"""The machine that a bench ran on, and when: without it, numbers mean nothing."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from pathlib import Path


def machine() -> dict[str, object]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": _field("/proc/cpuinfo", r"model name\s*:\s*(.+)"),
        "cores": os.cpu_count(),
        "memory_gib": round(int(_field("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0) / (1 << 20)),
        "kernel": platform.release(),
        "python": sys.version.split()[0],
        "load": os.getloadavg()[0],
    }


def _field(path: str, pattern: str) -> str:
    """What a pattern finds in a file of /proc; empty if there is none."""
    file = Path(path)
    found = re.search(pattern, file.read_text()) if file.exists() else None
    return found[1].strip() if found else ""
