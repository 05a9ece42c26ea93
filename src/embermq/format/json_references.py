r"""References inside a JSON value: `{"$ref":"$.table.a.attributes"}` stands for the value at that path.

RocketMQ writes them for an object that occurs twice. In a path `.` begins a name, `[n]` is the
element of an array, and `\` takes the character behind it as it is.
"""

from __future__ import annotations

import re
from typing import Final

from embermq.errors import CorruptRecord

_STEP: Final = re.compile(r"\.((?:\\.|[^\\.\[])+)|\[([0-9]{1,9})\]", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_MAX_HOPS: Final = 100


def resolve_references(root: object) -> object:
    """`root` with every reference replaced by what it refers to.

    A reference to nothing becomes an empty map. Raises CorruptRecord for a value that would contain itself.
    """
    return _Resolver(root).resolve(root, 0)


class _Resolver:
    """Each value is resolved once, so that many references to one value cost no more than one."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._done: dict[int, object] = {}
        self._open: set[int] = set()

    def resolve(self, value: object, hops: int) -> object:
        if not isinstance(value, dict | list):
            return value
        if id(value) in self._done:
            return self._done[id(value)]
        if id(value) in self._open or hops > 2 * _MAX_HOPS:
            raise CorruptRecord(0, "no JSON: a value refers to what it is part of")
        self._open.add(id(value))
        resolved = self._resolve_parts(value, hops + 1)
        self._open.remove(id(value))
        self._done[id(value)] = resolved
        return resolved

    def _resolve_parts(self, value: dict[object, object] | list[object], hops: int) -> object:
        if isinstance(value, list):
            return [self.resolve(element, hops) for element in value]
        if value.keys() == {"$ref"}:
            return self.resolve(self._find(value["$ref"], hops), hops)
        return {key: self.resolve(member, hops) for key, member in value.items()}

    def _find(self, path: object, hops: int) -> object:
        """What a path leads to; an empty map if it leads nowhere."""
        if path in ("..", "@"):
            return self._root  # always part of what it refers to, as the root is
        if not isinstance(path, str) or not path.startswith("$"):
            return {}
        value, at = self._root, 1
        while at < len(path):
            step = _STEP.match(path, at)
            if step is None:
                return {}
            at = step.end()
            value = self._step(value, step)
            if isinstance(value, dict) and value.keys() == {"$ref"}:
                value = self.resolve(value, hops)
        return value

    def _step(self, value: object, step: re.Match[str]) -> object:
        if step[2] is not None:
            index = int(step[2])
            if isinstance(value, list):
                return value[index] if index < len(value) else {}
            return value.get(index, {}) if isinstance(value, dict) else {}
        name = _ESCAPED.sub(r"\1", step[1])
        if not isinstance(value, dict):
            return {}
        if name in value:
            return value[name]
        # A numeric key is an integer in the map, but text in a path.
        return value.get(int(name), {}) if re.fullmatch(r"-?[0-9]{1,19}", name) else {}
