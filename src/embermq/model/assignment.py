"""Who reads which queues, when the broker decides it: sharing queues among the members of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

AVERAGE: Final = "AVG"
CIRCLE: Final = "AVG_BY_CIRCLE"


def share(strategy: str, queues: Sequence[T], clients: Sequence[str], client: str) -> list[T] | None:
    """The queues of one client, out of sorted queues and sorted clients; None if the strategy is not known."""
    if client not in clients:
        return []
    place, count = clients.index(client), len(clients)
    if strategy == CIRCLE:
        return list(queues[place::count])
    if strategy != AVERAGE:
        return None
    each, more = divmod(len(queues), count)
    begin = place * each + min(place, more)
    return list(queues[begin : begin + each + (place < more)])


def share_for_pop(
    strategy: str, queues: Sequence[T], clients: Sequence[str], client: str, *, extra: int
) -> list[T] | None:
    """The same with the shares of the next `extra` clients, so that one who is slow holds nothing up."""
    if client not in clients:
        return []
    place, count = clients.index(client), len(clients)
    if count > len(queues):
        return [queues[place % len(queues)]] if queues else []
    found: list[T] = []
    for step in range(extra + 1):
        own = share(strategy, queues, clients, clients[(place + step) % count])
        if own is None:
            return None
        found += own
    return found
