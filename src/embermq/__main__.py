"""`python -m embermq` is `ember`."""

from __future__ import annotations

import sys

from embermq.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
