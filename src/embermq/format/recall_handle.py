"""The handle by which a waiting message is recalled: what a send is answered with, and RECALL_MESSAGE brings back.

URL-safe base64 of   v1 <topic> <broker> <time in ms> <unique key>
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from embermq.errors import IllegalRecall

_VERSION = "v1"
_PARTS = 5
_LARGEST = 1024  # characters


class RecallHandle(NamedTuple):
    """Which message, and in which slot of the timer it waits."""

    topic: str
    broker: str
    time_ms: int  # within its slot
    unique_key: str


def encode_recall_handle(handle: RecallHandle) -> str:
    return base64.urlsafe_b64encode(" ".join((_VERSION, *map(str, handle))).encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Raises IllegalRecall for what is no handle."""
    try:
        if len(text) > _LARGEST:
            raise ValueError(f"{len(text)} characters")
        parts = base64.urlsafe_b64decode(text.encode("ascii")).decode().split(" ")
        if len(parts) < _PARTS or parts[0] != _VERSION:
            raise ValueError("it names no message")
        return RecallHandle(parts[1], parts[2], int(parts[3]), parts[4])
    except (ValueError, binascii.Error) as error:
        raise IllegalRecall(f"handle {text[:60]!r} cannot be read: {error}") from error
