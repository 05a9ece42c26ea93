"""Tables that are asked for a page at a time, and bodies that may be nonsense."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from embermq.errors import CorruptRecord, IllegalField
from embermq.format.json_fields import Fields, parse_fields
from embermq.format.tables import read_version
from embermq.model.version import DataVersion
from embermq.rpc.fields import I32, find_integer

MOST_OF_A_PAGE: Final = 2000

T = TypeVar("T")


def find_page(
    fields: Mapping[str, str], names: Iterable[str], version: DataVersion, *, begin: str, most: str
) -> list[str] | None:
    """The names of the page that a request asks for; None if it asks for everything.

    `begin` and `most` are its fields for the first name and the count. Who has pages of another
    version of the table begins anew, so that nothing is missed and nothing comes twice.
    """
    first, count = find_integer(fields, begin, limit=I32), find_integer(fields, most, limit=I32)
    seen = fields.get("dataVersion")
    if first is None and count is None and not seen:
        return None
    first = max(first or 0, 0)
    if first and seen and _read_version(seen) != version:
        first = 0
    size = MOST_OF_A_PAGE if count is None or count <= 0 else min(count, MOST_OF_A_PAGE)
    return sorted(names)[first : first + size]


def read_body(data: bytes, decode: Callable[[bytes], T]) -> T:
    """What a body holds. Raises IllegalField."""
    try:
        return decode(data)
    except CorruptRecord as error:
        raise IllegalField("body", error.reason) from error


def _read_version(text: str) -> DataVersion:
    def decode(data: bytes) -> DataVersion:
        return read_version(Fields({"dataVersion": parse_fields(data, "dataVersion").members}, "request"))

    try:
        return decode(text.encode())
    except CorruptRecord as error:
        raise IllegalField("dataVersion", error.reason) from error
