"""What the commands of archives have in common: the stores and topics that they name, and the libraries they need."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.scan.splits import StorePlace


def check_library() -> None:
    """Raise SettingsError without what every archive needs."""
    from importlib.util import find_spec

    from embermq.errors import SettingsError

    if find_spec("pyarrow") is None or find_spec("numpy") is None:
        raise SettingsError("archives need pyarrow and numpy; pip install 'embermq[archive]'")


def find_place(text: str) -> StorePlace:
    """The store that a command names. Who may read a broker's files is told by the environment."""
    import os

    from embermq.scan.broker_files import broker_place
    from embermq.scan.splits import BROKER_SCHEME, StorePlace

    if not text.startswith(BROKER_SCHEME):
        return StorePlace(text if "://" in text else os.path.abspath(text))  # executors work in other folders
    access_key, secret_key = os.environ.get("EMBERMQ_ACCESS_KEY"), os.environ.get("EMBERMQ_SECRET_KEY")
    return broker_place(text.removeprefix(BROKER_SCHEME), access_key=access_key, secret_key=secret_key)


def parse_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error
    return text
