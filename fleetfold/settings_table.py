"""Settings as people see them: one value with secrets masked, and all of them as a table (floor 4, pure)."""

from __future__ import annotations

import typing

from pydantic import BaseModel, SecretStr
from pydantic_core import to_json

from fleetfold.settings import Leaf, Settings, leaves

MASKED = "********"
NOT_SET = "none"


def settings_table() -> str:
    """Return every setting with its default as a Markdown table, for the documentation."""
    lines = ["| setting | in `fleetfold.toml` | default | |", "| --- | --- | --- | --- |"]
    for leaf in leaves():
        flag = f"`{leaf.flag}` / " if leaf.flag else ""
        place = f"`{leaf.path[-1]}` under `[{leaf.path[0]}]`" if len(leaf.path) > 1 else f"`{leaf.name}`"
        default = masked(leaf.default)
        quoted = default if default == NOT_SET else f"`{default}`"
        lines.append(f"| {flag}`{leaf.variable}` | {place} | {quoted} | {leaf.description}{_choices(leaf)} |")
    return "\n".join(lines) + "\n"


def shown(leaf: Leaf, settings: Settings) -> str:
    """Return the value of a setting as a person may see it."""
    value: object = settings
    for name in leaf.path:
        value = getattr(value, name)
    return masked(value)


def masked(value: object) -> str:  # noqa: PLR0911 - one answer for each kind of value
    """Return a value as text, without what is secret in it."""
    match value:
        case None | ():
            return NOT_SET
        case SecretStr():
            return MASKED
        case tuple():
            return f"{len(value)} × {MASKED}"
        case bool():
            return "on" if value else "off"
        case float():
            return f"{value:g}"
        case dict() if not value:
            return NOT_SET
        case dict():
            return str(to_json(value, exclude_none=True), "utf-8")
        case BaseModel():
            return value.model_dump_json()
        case _:
            return str(value)


def _choices(leaf: Leaf) -> str:
    if typing.get_origin(leaf.annotation) is not typing.Literal:
        return ""
    return f" ({' or '.join(f'`{choice}`' for choice in typing.get_args(leaf.annotation))})"
