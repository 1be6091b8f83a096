"""A dialect's body, read strictly and once: nothing is coerced, nothing unknown is refused (floor 3, pure).

Booleans are no numbers, texts are no numbers, NaN is not JSON, a key stands once. Faults are collected, so
that an answer can name all of them; `done` raises them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from decimal import Decimal
from typing import Any

from api.dialects.refusal import Fault, Refusal, unreadable
from events.amounts import amount
from events.body import NAN, read_object
from events.errors import UnreadableError
from events.facts import MAX_COUNT


def read_members(body: bytes, *, is_null_missing: bool = False) -> Members:
    """Return the members of a body that is one JSON object; raise Refusal (malformed, invalid, oversized)."""
    try:
        values, is_plain = read_object(body)
    except UnreadableError as err:
        raise unreadable(err) from err
    if not is_plain and _holds_nan(values):
        raise Refusal("malformed", "NaN and Infinity are not JSON")
    return Members(values, is_null_missing=is_null_missing)


class Members:
    """The members of one object. A member that is missing or faulty is read as its default.

    With `is_null_missing`, null says the same as leaving the member out; else it is a value of no type.
    """

    def __init__(
        self,
        values: dict[str, Any],
        *,
        is_null_missing: bool = False,
        at: str = "",
        faults: list[Fault] | None = None,
    ) -> None:
        self.values, self._at, self._is_null_missing = values, at, is_null_missing
        self.faults: list[Fault] = [] if faults is None else faults

    def __contains__(self, name: str) -> bool:
        """Say whether the member is there."""
        return name in self.values and not (self._is_null_missing and self.values[name] is None)

    def names(self) -> list[str]:
        """Return the names of the members that are there."""
        return [name for name in self.values if name in self]

    def fault(self, name: str, message: str) -> None:
        """Note that a member is wrong."""
        self.faults.append(Fault(self._path(name), message))

    def done(self) -> None:
        """Raise what was found wrong so far, all of it; else nothing."""
        if self.faults:
            first = self.faults[0]
            detail = f"{first.field}: {first.message}" if first.field else first.message
            raise Refusal("invalid", detail, faults=self.faults)

    def text(
        self,
        name: str,
        *,
        at_least: int = 0,
        pattern: re.Pattern[str] | None = None,
        choices: Collection[str] = (),
    ) -> str | None:
        """Return a text, None where it is missing; with a pattern it fits whole."""
        value = self._get(name)
        if value is None:
            return None
        if type(value) is not str:
            self.fault(name, "is a text")
            return None
        if len(value) < at_least:
            self.fault(name, "is not empty")
            return None
        if choices and value not in choices:
            self.fault(name, f"is one of {', '.join(choices)}, not {value[:80]!r}")
            return None
        if pattern is not None and not pattern.fullmatch(value):
            self.fault(name, f"{value[:80]!r} does not fit {pattern.pattern}")
            return None
        return value

    def needed_text(
        self,
        name: str,
        *,
        at_least: int = 0,
        pattern: re.Pattern[str] | None = None,
        choices: Collection[str] = (),
    ) -> str:
        """Return a text that has to be there, "" where it is not."""
        self._need(name)
        return self.text(name, at_least=at_least, pattern=pattern, choices=choices) or ""

    def integer(self, name: str, *, minimum: int = -MAX_COUNT, maximum: int = MAX_COUNT) -> int | None:
        """Return a whole number, None where it is missing. 8.0 is one, as in JSON Schema; true is none."""
        value = self._get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = _exact(value)
        if type(value) is not int:
            self.fault(name, "is a whole number")
            return None
        if not minimum <= value <= maximum:
            self.fault(name, f"lies between {minimum} and {maximum}")
            return None
        return value

    def needed_integer(self, name: str, *, minimum: int = -MAX_COUNT, maximum: int = MAX_COUNT) -> int:
        """Return a whole number that has to be there, 0 where it is not."""
        self._need(name)
        return self.integer(name, minimum=minimum, maximum=maximum) or 0

    def number(self, name: str, *, minimum: int | None = None, above: int | None = None) -> Decimal | None:
        """Return a number exactly as it was written, None where it is missing."""
        value = self._get(name)
        if value is None:
            return None
        if type(value) is bool or not isinstance(value, int | float):
            self.fault(name, "is a number")
            return None
        try:
            exact = amount(value)
        except ValueError as err:
            self.fault(name, str(err))
            return None
        if minimum is not None and exact < minimum:
            self.fault(name, f"is at least {minimum}")
            return None
        if above is not None and exact <= above:
            self.fault(name, f"is above {above}")
            return None
        return exact

    def flag(self, name: str) -> bool | None:
        """Return true or false, None where it is missing."""
        value = self._get(name)
        if value is None or type(value) is bool:
            return value
        self.fault(name, "is true or false")
        return None

    def texts(self, name: str) -> dict[str, str] | None:
        """Return an object whose members are texts, None where it is missing."""
        inner = self.inner(name)
        if inner is None:
            return None
        return {key: inner.needed_text(key) for key in inner.names()}

    def text_list(self, name: str) -> list[str] | None:
        """Return a list of texts, None where it is missing."""
        value = self._get(name)
        if value is None:
            return None
        if type(value) is not list or any(type(one) is not str for one in value):
            self.fault(name, "is a list of texts")
            return None
        return value

    def inner(self, name: str) -> Members | None:
        """Return the members of an object in this one, None where it is missing."""
        value = self._get(name)
        if value is None:
            return None
        if type(value) is not dict:
            self.fault(name, "is an object")
            return None
        return self._below(value, self._path(name))

    def needed_inner(self, name: str) -> Members:
        """Return the members of an object that has to be there."""
        self._need(name)
        return self.inner(name) or self._below({}, self._path(name))

    def objects(self, name: str) -> list[Members] | None:
        """Return the objects of a list, None where it is missing."""
        value = self._get(name)
        if value is None:
            return None
        if type(value) is not list:
            self.fault(name, "is a list of objects")
            return None
        found = []
        for at, one in enumerate(value):
            if type(one) is dict:
                found.append(self._below(one, f"{self._path(name)}[{at}]"))
            else:
                self.faults.append(Fault(f"{self._path(name)}[{at}]", "is an object"))
        return found

    def _get(self, name: str) -> Any:  # noqa: ANN401 (JSON)
        if name not in self:
            return None
        value = self.values[name]
        if value is None:
            self.fault(name, "is not null")
        return value

    def _need(self, name: str) -> None:
        if name not in self:
            self.fault(name, "is required")

    def _below(self, values: dict[str, Any], at: str) -> Members:
        return Members(values, is_null_missing=self._is_null_missing, at=at, faults=self.faults)

    def _path(self, name: str) -> str:
        return f"{self._at}.{name[:80]}" if self._at else name[:80]


def _exact(value: float) -> int:
    """Return a whole number with the digits that were written, which a float of that size does not have."""
    try:
        return int(amount(value))
    except ValueError:
        return int(value)


def _holds_nan(value: object) -> bool:
    return any(one is NAN for one in _leaves(value))


def _leaves(value: object) -> Iterator[object]:
    match value:
        case dict():
            for member in value.values():
                yield from _leaves(member)
        case list():
            for member in value:
                yield from _leaves(member)
        case _:
            yield value
