"""Reading RocketMQ's `plain_acl.yml`; the reader of YAML is an extra, imported when it is needed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from embermq.access.plain_acl import Imported, convert_plain_acl
from embermq.errors import SettingsError


def read_plain_acl(path: Path) -> Imported:
    """The users and policies of the file. Raises SettingsError."""
    try:
        yaml = import_module("yaml")
    except ImportError as error:
        raise SettingsError(
            f"reading {path} takes the library PyYAML: run `pip install pyyaml`, or make the users by hand"
        ) from error
    try:
        document = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    return convert_plain_acl(document, where=str(path))
