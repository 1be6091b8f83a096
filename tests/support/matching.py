"""What an answer has to hold, as the conformance cases say it: subsets, and rules such as `$rfc3339`."""

from __future__ import annotations

import json
import re
from typing import Any

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
EMPTY: tuple[Any, ...] = (None, "", [], {})


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


def fits(expected: Any, found: Any, saved: dict[str, Any], where: str = "$") -> None:  # noqa: ANN401
    """Fail where an answer does not hold what is expected of it; `saved` holds what earlier steps kept."""
    match expected:
        case str() if expected.startswith("$"):
            assert _rule(expected, found, saved), f"{where}: expected {expected}, found {found!r}"
        case dict():
            assert isinstance(found, dict), f"{where}: expected an object, found {found!r}"
            for name, value in expected.items():
                fits(value, found.get(name, NOTHING), saved, f"{where}.{name}")
        case [str() as only] if only.startswith("$"):
            assert isinstance(found, list), f"{where}: expected a list, found {found!r}"
            assert len(found) == 1, f"{where}: expected one element, found {found!r}"
            fits(only, found[0], saved, f"{where}[0]")
        case list():
            assert isinstance(found, list), f"{where}: expected a list, found {found!r}"
            assert len(found) == len(expected), f"{where}: expected {len(expected)} elements, found {found!r}"
            for at, (one, other) in enumerate(zip(expected, found, strict=True)):
                fits(one, other, saved, f"{where}[{at}]")
        case bool() | None:
            assert found is expected, f"{where}: expected {expected!r}, found {found!r}"
        case _:
            is_same = not isinstance(found, bool) and found == expected
            assert is_same, f"{where}: expected {expected!r}, found {found!r}"


def picked(answer: Any, path: str) -> Any:  # noqa: ANN401
    """Return what an answer holds at a dotted path."""
    for part in path.split("."):
        answer = answer[int(part)] if isinstance(answer, list) else answer[part]
    return answer


def _rule(rule: str, found: Any, saved: dict[str, Any]) -> bool:  # noqa: ANN401, PLR0911 (one each)
    name, _, argument = rule[1:].partition(":")
    is_there = found is not NOTHING
    match name:
        case "absent":
            return found is None or not is_there
        case "absent_or_empty":
            return not is_there or found in EMPTY
        case "nonempty":
            return is_there and found not in EMPTY
        case "rfc3339":
            return isinstance(found, str) and RFC3339.fullmatch(found) is not None
        case "contains":
            return is_there and argument in (found if isinstance(found, str) else json.dumps(found))
        case "regex":
            return isinstance(found, str) and re.search(argument, found) is not None
        case "not":
            return is_there and str(found) != argument
        case "eq":
            return bool(found == saved[argument])
        case "ne":
            return is_there and found != saved[argument]
        case "same":
            return is_there and found == saved.setdefault(f"same:{argument}", found)
    raise ValueError(f"{rule} is no rule")
