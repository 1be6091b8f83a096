"""Settings read from their places, each with its origin (floor 4): flag, environment, file, default.

A name nobody knows is an error that says the nearest known one: a misspelt setting that is ignored is worse
than none.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from events.errors import SettingsError
from fleetfold.settings import (
    ENV_BETWEEN_LEVELS,
    ENV_PREFIX,
    TOML_FILE,
    Leaf,
    Settings,
    leaves,
    without_empty,
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings of a process, and the origin of each by its name (`flag --http`, `default`, …)."""

    settings: Settings
    origins: dict[str, str]


def load(flags: Mapping[str, Any] | None = None) -> Loaded:
    """Read the settings; `flags` are values by leaf name, None where one is not given.

    Raises SettingsError for unknown names and for values that break a rule; secrets are never in its text.
    """
    known = {leaf.name: leaf for leaf in leaves()}
    given = {name: value for name, value in (flags or {}).items() if value not in (None, "")}
    environ = _checked_environment(known)
    file = _checked_file(known)
    try:
        settings = Settings(**_nested(given))
    except ValidationError as err:
        raise SettingsError(_sentences(err, known)) from err
    return Loaded(settings, {name: _origin(leaf, given, environ, file) for name, leaf in known.items()})


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, last = name.split(".")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return nested


def _checked_environment(known: Mapping[str, Leaf]) -> set[str]:
    """Return the leaf names that the environment sets; refuse unknown variables and JSON that is none."""
    variables = {leaf.variable: leaf for leaf in known.values()}
    found: set[str] = set()
    for variable, text in os.environ.items():
        if not variable.upper().startswith(ENV_PREFIX):
            continue
        leaf = variables.get(variable.upper())
        if leaf is None:
            raise SettingsError(f"{variable} is not a setting{_nearest(variable.upper(), variables)}")
        if not text:
            continue
        if _is_json(leaf):
            _refuse_bad_json(variable, text)
        found.add(leaf.name)
    return found


def _checked_file(known: Mapping[str, Leaf]) -> set[str]:
    """Return the leaf names that the file sets; refuse unknown members and a file that is not TOML."""
    try:
        table = tomllib.loads(Path(TOML_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return set()
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise SettingsError(f"{TOML_FILE} cannot be read: {err}") from err
    groups = {leaf.path[0] for leaf in known.values() if len(leaf.path) > 1}
    found: set[str] = set()
    for name, value in table.items():
        names = (
            [f"{name}.{below}" for below in value] if isinstance(value, dict) and name in groups else [name]
        )
        for full in names:
            if full not in known:
                raise SettingsError(f"{full} in {TOML_FILE} is not a setting{_nearest(full, known)}")
    for name, value in without_empty(table).items():
        found |= (
            {f"{name}.{below}" for below in value} if isinstance(value, dict) and name in groups else {name}
        )
    return found


def _nearest(name: str, known: Mapping[str, Leaf]) -> str:
    below = [other for other in known if other.startswith((f"{name}{ENV_BETWEEN_LEVELS}", f"{name}."))]
    close = below[:1] or difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f": did you mean {close[0]}?" if close else ": `fleetfold check` lists them all"


def _is_json(leaf: Leaf) -> bool:
    return any(kind in str(leaf.annotation) for kind in ("tuple", "dict", "HostReservation"))


def _refuse_bad_json(variable: str, text: str) -> None:
    try:
        json.loads(text)
    except ValueError as err:
        raise SettingsError(
            f'{variable} is not JSON: write it as ["first", "second"] or {{"member": 1}}'
        ) from err


def _origin(leaf: Leaf, given: Mapping[str, Any], environ: set[str], file: set[str]) -> str:
    if leaf.name in given:
        return f"flag {leaf.flag}" if leaf.flag else "given"
    if leaf.name in environ:
        return f"environment {leaf.variable}"
    return TOML_FILE if leaf.name in file else "default"


def _sentences(err: ValidationError, known: Mapping[str, Leaf]) -> str:
    """Return what is wrong, one sentence a fault, without the values."""
    told = []
    for fault in err.errors(include_input=False, include_url=False, include_context=False):
        path = tuple(str(step) for step in fault["loc"])
        leaf = next((leaf for leaf in known.values() if leaf.path == path[: len(leaf.path)]), None)
        told.append((f"{leaf.variable}: " if leaf else "") + fault["msg"].removeprefix("Value error, "))
    return "; ".join(told)
