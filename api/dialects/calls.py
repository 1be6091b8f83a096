"""The shape of a dialect: its calls, who may make them, and how it says no (floor 3).

A dialect is a value: `Dialect`. It has no framework below it, so that nothing of a framework (its error
bodies, its coercions, its status codes) can come through. `api.dialects.serving` runs it.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from api.dialects.reading import Members, read_members
from api.dialects.refusal import Refusal

JSON = "application/json"
Schema = dict[str, Any]
"""A JSON Schema."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: `values` are the parts of the path that a template names, decoded, never empty.

    Names of headers are in lower case. Of a query parameter given twice, the first counts. `request_id` is
    the caller's `X-Request-ID` where it is a plain one, else ours; facts and answers may carry it.
    """

    method: str
    path: str
    values: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    request_id: str

    def members(self, *, is_null_missing: bool = False) -> Members:
        """Return the members of the body, which has to be a JSON object; raise Refusal."""
        return read_members(self.body, is_null_missing=is_null_missing)

    def members_if_any(self, *, is_null_missing: bool = False) -> Members:
        """Return the members of the body, none where there is no body."""
        if not self.body.strip():
            return Members({}, is_null_missing=is_null_missing)
        return self.members(is_null_missing=is_null_missing)

    @property
    def bearer(self) -> str | None:
        """The token behind `Authorization: Bearer`, None where there is no such header."""
        given = self.headers.get("authorization")
        if given is None:
            return None
        scheme, _, token = given.partition(" ")
        return token.strip(" ") if scheme.lower() == "bearer" else ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `body` is written as JSON (None: no body), `text` in its place where it is not None."""

    status: int
    body: object = None
    text: str | None = None
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shown:
    """How an answer is documented: what it means, and its schema (None: no body)."""

    meaning: str
    schema: Schema | None = None
    media_type: str = JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One method of one path, such as `/v1/nodes/{id}/drain`.

    `answers` are those that are not refusals; which refusals can come, `refusals` says by status, besides
    those that every call may give. `takes` is the schema of the body (None: none is read). An open call is
    documented as one that asks for no token.
    """

    method: str
    path: str
    does: Callable[[Asked], Awaitable[Reply]]
    summary: str
    answers: Mapping[int, Shown]
    refusals: tuple[int, ...] = ()
    takes: Schema | None = None
    needs_body: bool = True
    is_open: bool = False
    query: Mapping[str, Schema] = field(default_factory=dict)


def _no_headers(_asked: Asked) -> Mapping[str, str]:
    return {}


def _everybody(_asked: Asked, _call: Call) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One dialect. Of several, the one with the longest of `prefixes` before a path answers it.

    `refuse` makes its answer of a refusal, `allow` raises Refusal for who may not make a call (it is asked
    before the body is read and for known routes only), `beside` gives headers for every answer.
    `may_always_come` are the statuses of refusals that every call may give.
    """

    name: str
    title: str
    prefixes: tuple[str, ...]
    calls: tuple[Call, ...]
    refuse: Callable[[Refusal, Asked], Reply]
    refused_as: Shown
    may_always_come: tuple[int, ...]
    allow: Callable[[Asked, Call], None] = _everybody
    beside: Callable[[Asked], Mapping[str, str]] = _no_headers
    security: Schema | None = None


def is_one_of(token: str, tokens: Collection[str]) -> bool:
    """Say whether a token is among some, in a time that does not depend on which or how much of it fits."""
    given, is_found = token.encode(), False
    for one in tokens:
        is_found |= hmac.compare_digest(given, one.encode())
    return is_found


def fingerprint(secret: str) -> str:
    """Return what facts may hold of a secret: 16 hex digits of its SHA-256."""
    return sha256(secret.encode()).hexdigest()[:16]
