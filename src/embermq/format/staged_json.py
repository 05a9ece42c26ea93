"""Plans and manifests of staged batches, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable

from embermq.errors import CorruptRecord
from embermq.format.json_fields import Fields, parse_fields, read_items
from embermq.model.staged import Manifest, Plan, StagedTask

_DONE, _INTENT = "done", "intent"


def encode_plan(plan: Plan) -> bytes:
    return json.dumps(_plain(plan)).encode()


def decode_plan(data: bytes) -> Plan:
    """Raises CorruptRecord."""
    return _plan(parse_fields(b'{"plan":' + data + b"}", "plan"))


def encode_manifest(manifest: Manifest) -> bytes:
    return json.dumps(
        {
            "job": manifest.job,
            "batch": manifest.batch,
            "state": _DONE if manifest.is_done else _INTENT,
            "position": manifest.position,
            "monthMs": manifest.month_ms,
            "tasks": _plain_tasks(manifest.tasks),
            "plan": _plain(manifest.plan),
        }
    ).encode()


def decode_manifest(data: bytes) -> Manifest:
    """Raises CorruptRecord."""
    fields = parse_fields(data, "manifest")
    state, numbers = fields.text("state", ""), [fields.integer(name, -1) for name in ("batch", "position", "monthMs")]
    if state not in (_DONE, _INTENT) or min(numbers) < 0:
        raise CorruptRecord(0, f"a manifest with state {state!r} and numbers {numbers}")
    batch, position, month_ms = numbers
    tasks = _tasks(fields.members.get("tasks"), "tasks")
    return Manifest(fields.text("job", ""), batch, state == _DONE, position, month_ms, tasks, _plan(fields))


def _plain(plan: Plan) -> dict[str, list[dict[str, object]]]:
    return {broker: _plain_tasks(tasks) for broker, tasks in plan.items()}


def _plain_tasks(tasks: Iterable[StagedTask]) -> list[dict[str, object]]:
    return [task._asdict() for task in tasks]


def _plan(fields: Fields) -> Plan:
    found = read_items(fields.members.get("plan"), "plan")
    return {broker: _tasks(tasks, f"plan.{broker}") for broker, tasks in found}


def _tasks(value: object, where: str) -> tuple[StagedTask, ...]:
    if not isinstance(value, list):
        raise CorruptRecord(0, f"{where}: an array of tasks expected")
    return tuple(_task(Fields(task, where)) for task in value)


def _task(fields: Fields) -> StagedTask:
    task = StagedTask(fields.text("name", ""), fields.integer("chunks", -1), fields.integer("messages", -1))
    if not task.name or task.chunks < 0 or task.messages < 0:
        raise CorruptRecord(0, f"a task of a plan: name and counts expected, found {task}")
    return task
