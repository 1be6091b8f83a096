"""What may be asked: the parameters of each question, the same over HTTP and over NATS (floor 3).

Over HTTP they are the query, over NATS the members of a JSON object. They are read strictly: what is not
listed here is refused. An empty text means "not given". Times are RFC 3339 with an offset.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from api.models import GroupWord, IntentWord, LivenessWord, StateWord
from api.problems import INVALID_PARAMETER, ProblemError

MAX_LIMIT = 1000
# A page of 1,000 nodes is 1.5 to 2 MB of JSON: more is no page. Over NATS, the broker's largest message (1
# MiB by default) is the bound, and a page beyond it is a problem that says so.

CLOCKS_DIFFER_BY = timedelta(seconds=60)
# How far `at` may lie in the future: the caller's clock is not ours. Beyond, it is a mistake worth naming.

_TIME = {"type": "string", "format": "date-time"}


def moment_of(text: object, *, parameter: str) -> datetime:
    """Return an RFC 3339 time in UTC; raise invalid_parameter for anything else."""
    if isinstance(text, datetime) and text.tzinfo is not None:
        return text.astimezone(UTC)
    if not isinstance(text, str):
        raise _no_time(parameter, "a time is a text")
    spelled = text[:-6] + "+" + text[-5:] if len(text) > 6 and text[-6] == " " else text  # a + that a URL ate
    try:
        moment = datetime.fromisoformat(spelled)
        if moment.tzinfo is None:
            raise _no_time(parameter, "an offset is missing: end it with Z")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as err:
        raise _no_time(parameter, "a time is written 2026-05-01T12:00:00Z") from err


def past(text: object) -> datetime | None:
    """Return the moment that `at` names, in UTC; raise invalid_parameter for none or a future one."""
    if text is None or text == "":
        return None
    moment = moment_of(text, parameter="at")
    if moment > datetime.now(UTC) + CLOCKS_DIFFER_BY:
        raise _no_time("at", f"{moment:%Y-%m-%dT%H:%M:%SZ} lies in the future")
    return moment


def _no_time(parameter: str, why: str) -> ProblemError:
    return ProblemError(INVALID_PARAMETER, f"{parameter}: {why}", members={"parameter": parameter})


def _none_for_empty(value: object) -> object:
    return None if value == "" else value


def _label(text: object) -> object:
    if not isinstance(text, str) or "=" not in text:
        raise ProblemError(
            INVALID_PARAMETER, "label: a label is written key=value", members={"parameter": "label"}
        )
    return text


def _from(text: object) -> datetime:
    return moment_of(text, parameter="from")


def _to(text: object) -> datetime | None:
    return None if text is None or text == "" else moment_of(text, parameter="to")


NotEmpty = BeforeValidator(_none_for_empty)
Text = Annotated[Annotated[str, Field(max_length=1024)] | None, NotEmpty]
At = Annotated[datetime | None, BeforeValidator(past), WithJsonSchema(_TIME)]
Seq = Annotated[Annotated[int, Field(ge=0, le=2**63 - 1)] | None, NotEmpty]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]


class Parameters(BaseModel):
    """These members and no others; what every question may say."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    min_seq: Seq = Field(
        None, description="wait (up to 5 s) until this position of FLEET is folded; else a 504 problem"
    )


class NodeParameters(Parameters):
    """Of the question about one node."""

    at: At = Field(None, description="as it was at this moment")


class ListParameters(Parameters):
    """Of a question that is answered in pages."""

    limit: Limit = Field(100, description="how many items a page has at most")
    cursor: Annotated[str | None, NotEmpty] = Field(None, description="`next_cursor` of the page before")


class NodesParameters(ListParameters):
    """Of the question about many nodes: every filter that is given has to fit. Sorted by node id."""

    state: Annotated[StateWord | None, NotEmpty] = None
    liveness: Annotated[LivenessWord | None, NotEmpty] = None
    intent: Annotated[IntentWord | None, NotEmpty] = None
    zone: Text = None
    pool: Text = None
    region: Text = None
    label: list[Annotated[str, BeforeValidator(_label)]] = Field(
        default_factory=list, description="`key=value`; each one that is given has to fit", max_length=20
    )
    dialect: Text = None
    native_id: Text = Field(None, description="the id in its dialect")
    name: Text = Field(None, description="hostname, display name or the name in its dialect")
    include_retired: bool = Field(False, description="also list tombstones")
    at: At = Field(None, description="as they were at this moment")


class TimelineParameters(ListParameters):
    """Of the question what became of one node, newest first."""


class CapacityParameters(Parameters):
    """Of the question about the capacity of the fleet."""

    group_by: GroupWord = Field("resource", description="one sum per resource, or per resource and place")
    at: At = Field(None, description="as it was at this moment")


class CapacityHistoryParameters(ListParameters):
    """Of the question how capacity developed: one sum per step, as of the step's beginning."""

    limit: Limit = Field(100, description="how many steps a page has at most")
    from_: Annotated[datetime, BeforeValidator(_from), WithJsonSchema(_TIME)] = Field(alias="from")
    to: Annotated[datetime | None, BeforeValidator(_to), WithJsonSchema(_TIME)] = Field(
        None, description="now, if not given"
    )
    step: Annotated[int, Field(ge=1, le=31_622_400)] = Field(3600, description="seconds")
    group_by: GroupWord = "resource"


Kind = Annotated[str, Field(pattern=r"^[a-z_]+(\.[a-z_]+)?$", max_length=64)]


class FollowParameters(BaseModel):
    """Of following the changes: after which position, and which of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: Text = Field(
        None,
        description="the position after which to begin: the cursor of a frame, of a page or of an event in "
        "CHANGES, `<epoch>/<seq>` of an answer's as_of, `start` (as without it), or `now`",
    )
    node: list[str] = Field(default_factory=list, description="only of these nodes", max_length=100)
    kind: list[Kind] = Field(
        default_factory=list, description="only of these kinds: `state`, `state.lost`", max_length=20
    )


class ChangesParameters(Parameters, FollowParameters):
    """Of the question what changed, oldest first."""

    limit: Limit = Field(100, description="how many items a page has at most")


NOT_A_FILTER = frozenset({"limit", "cursor", "min_seq"})


def filters(parameters: ListParameters) -> dict[str, object]:
    """Return what a list is selected by: what its cursors are bound to."""
    return parameters.model_dump(mode="json", exclude=set(NOT_A_FILTER))
