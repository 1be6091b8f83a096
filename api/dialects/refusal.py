"""Why a dialect's call is not done, before any dialect has dressed it (floor 3, pure).

Every failure becomes one `Refusal` of a closed set of kinds. Each dialect has one function that makes an
answer of it: its status, its envelope, its words. So an error looks native whatever it came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from api.problems import ProblemError, problem_of
from events.errors import FleetfoldError, RefusedError, UnreadableError
from events.reasons import NOT_AN_OBJECT, OVERSIZED

Kind = Literal[
    "malformed",  # the body, or a path, is no text of its kind: not JSON, not UTF-8, nested too deeply
    "invalid",  # it is JSON, but not what the call takes: `faults` says where
    "unauthorized",
    "forbidden",
    "unknown_route",
    "method_not_allowed",
    "missing",  # the node is not known
    "conflict",
    "oversized",
    "not_enabled",  # switched off by a setting
    "upstream",  # somebody else whom we had to ask did not answer as needed
    "unavailable",  # the broker or the tables do not answer: nobody knows, the same call may be made again
    "internal",
]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Fault(NamedTuple):
    """One thing wrong with a body; `field` is a path such as `capacity.gpus[0].index`, "" for the whole."""

    field: str
    message: str


class Refusal(FleetfoldError):
    """A call is not done. `word` is a dialect's own code where the kind alone does not say it.

    `details` are members for dialects that show them; `headers` go beside the answer.
    """

    code = "refusal"

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        word: str = "",
        faults: Sequence[Fault] = (),
        details: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.kind, self.detail, self.word = kind, detail, word
        self.faults, self.details, self.headers = tuple(faults), dict(details or {}), dict(headers or {})
        super().__init__(f"{kind}: {detail}")


def refusal_of(err: Exception) -> Refusal:
    """Return what an error is for the caller; the unforeseen is logged under an id that the detail names."""
    match err:
        case Refusal():
            return err
        case UnreadableError():
            return unreadable(err)
        case RefusedError(reason="append_refused" | "publish_refused"):
            return Refusal("unavailable", str(err))  # the broker stores nothing more
    problem = problem_of(err)
    return Refusal(_kind(problem), problem.detail, headers=problem.headers)


def unreadable(err: UnreadableError) -> Refusal:
    """Return what a body that `events.body` cannot read is."""
    if err.reason == OVERSIZED:
        return Refusal("oversized", err.detail)
    detail = f"{err.field[:80]}: {err.detail}" if err.field else err.detail
    if err.reason == NOT_AN_OBJECT:
        return Refusal("invalid", detail, faults=[Fault("", "the body is not an object")])
    return Refusal("malformed", detail)


def _kind(problem: ProblemError) -> Kind:
    match problem.status:
        case 400:
            return "invalid"
        case 404 | 410:
            return "missing"
        case 409:
            return "conflict"
        case 413:
            return "oversized"
        case 503 | 504:
            return "unavailable"
        case _:
            return "internal"
