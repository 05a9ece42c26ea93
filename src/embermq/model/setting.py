"""One setting: a field of a settings class that says its unit and what changing it does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from embermq.errors import SettingsError


def setting(default: object, unit: str, consequence: str, *, is_secret: bool = False) -> Any:
    """A field of a frozen dataclass; docs/settings.md is made from what it says. A secret is not shown by repr."""
    metadata = {"unit": unit, "consequence": consequence}
    return dataclasses.field(default=default, metadata=metadata, repr=not is_secret)


def check_names(names: Iterable[str], settings: type[Any]) -> None:
    """Raise SettingsError, which tells the nearest name, unless a settings class has all of these."""
    known = {field.name for field in dataclasses.fields(settings)}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError(f"no setting {name!r}{hint}")
