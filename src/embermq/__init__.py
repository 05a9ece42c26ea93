"""EmberMQ: a RocketMQ-compatible message store and broker for Python and data teams."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Batch",
    "Client",
    "Delivery",
    "EmberError",
    "Message",
    "MessageBatch",
    "Receipt",
    "SendReceipt",
    "Store",
    "StoredMessage",
    "load_kernels",
    "open_store",
]

_HOMES = {
    "AsyncClient": "embermq.client.client",
    "Batch": "embermq.store.reading",
    "Client": "embermq.client.sync",
    "Delivery": "embermq.client.delivery",
    "EmberError": "embermq.errors",
    "Message": "embermq.model.message",
    "MessageBatch": "embermq.model.message_batch",
    "Receipt": "embermq.model.message",
    "SendReceipt": "embermq.client.producer",
    "Store": "embermq.store.store",
    "StoredMessage": "embermq.model.message",
    "load_kernels": "embermq.kernels.loading",
    "open_store": "embermq.store.store",
}

if TYPE_CHECKING:
    from embermq.client.client import AsyncClient
    from embermq.client.delivery import Delivery
    from embermq.client.producer import SendReceipt
    from embermq.client.sync import Client
    from embermq.errors import EmberError
    from embermq.kernels.loading import load_kernels
    from embermq.model.message import Message, Receipt, StoredMessage
    from embermq.model.message_batch import MessageBatch
    from embermq.store.reading import Batch
    from embermq.store.store import Store, open_store


def __getattr__(name: str) -> object:
    # Names are imported when first used, so that `ember --version` starts fast.
    if name not in _HOMES:
        raise AttributeError(f"module 'embermq' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
