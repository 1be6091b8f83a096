"""What writing routes are told, read strictly: the bodies over HTTP, with the node's id over NATS (floor 3).

What is not listed is refused; what is another owner's is refused with the right way to change it. Whoever
asks is the `actor`: the member of the body, else the header `X-Fleetfold-Actor`, else `operator` (for
allocations `platform`). `request_id` is the member, else the header `X-Request-Id`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from api.models import IntentWord, LivenessWord, StateWord
from api.parameters import moment_of
from api.problems import INVALID_BODY, ProblemError
from events.amounts import Amount
from projections.situations import ENDS, PLACES, Action

OPERATOR = "operator"
"""Who holds a node where nobody is named, and who the actor is."""
PLATFORM = "platform"

MOST_LABEL_BYTES = 1024
# What is longer is cut in a report (`events.treatments`): here it is refused.
PROTECTED = "fleetfold/"
MOST_IDS = 1000

_TIME = {"type": "string", "format": "date-time"}


def refused_member(parameter: str, why: str) -> ProblemError:
    """Return the problem of one member of a body."""
    fault = {"in": "body", "parameter": parameter, "detail": why}
    return ProblemError(INVALID_BODY, f"{parameter}: {why}", members={"errors": [fault]})


def _until(text: object) -> datetime | None:
    if text is None:
        return None
    try:
        moment = moment_of(text, parameter="until")
    except ProblemError as err:
        raise refused_member("until", err.detail.removeprefix("until: ")) from err
    if moment <= datetime.now(UTC):
        raise refused_member("until", f"{moment:%Y-%m-%dT%H:%M:%SZ} has passed")
    return moment


def _amount(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
        raise ValueError("an amount is not negative")
    return value


MOST_NAME_CHARS = 1024
Word = Annotated[str, Field(min_length=1, max_length=MOST_NAME_CHARS)]
Owner = Annotated[str, Field(min_length=1, max_length=256)]
Until = Annotated[datetime | None, BeforeValidator(_until), WithJsonSchema(_TIME)]
Given = Annotated[Amount, BeforeValidator(_amount), WithJsonSchema({"type": "number", "minimum": 0})]


class Body(BaseModel):
    """These members and no others, each of its own type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Decision(Body):
    """Who decides, and why."""

    reason: str = Field("", max_length=1024, description="why; kept with the fact and shown with the node")
    actor: Word | None = Field(
        None, description="who; else the header X-Fleetfold-Actor, else the owner of such facts"
    )
    request_id: Word | None = Field(
        None, description="the same one again does nothing a second time; else the header X-Request-Id"
    )


class ActionBody(Decision):
    """What to do with a node."""

    action: Action
    owner: Owner = Field(OPERATOR, description="whose hold is placed or ended; each owner has its own")
    until: Until = Field(None, description="of a hold: when it ends by itself")
    sticky: bool = Field(False, description="of a hold: it outlives a replacement of the machine")
    force: bool = Field(
        False, description="retire in spite of workloads; end every owner's hold and not only one's"
    )
    dry_run: bool = Field(False, description="say what would happen, and do nothing")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        is_placing = self.action in PLACES
        if not is_placing and self.until is not None:
            raise refused_member("until", f"{self.action} has no end: it belongs to {_names(PLACES)}")
        if not is_placing and self.sticky:
            raise refused_member("sticky", f"it belongs to {_names(PLACES)}")
        if self.force and self.action not in {"retire", *ENDS}:
            raise refused_member("force", f"it belongs to retire, {_names(ENDS)}")
        if not self.reason.strip() and (is_placing or self.action == "retire"):
            raise refused_member("reason", f"{self.action} needs one: whoever finds the node so will ask")
        return self


class Selector(Body):
    """Which nodes: each member that is given has to fit. None is refused, unless `all` is true."""

    ids: list[Word] | None = Field(
        None, max_length=MOST_IDS, description="these; one that is unknown is told"
    )
    match: Word | None = Field(None, description="ids that fit a pattern with *, ? and [1-5]")
    state: StateWord | None = None
    liveness: LivenessWord | None = None
    intent: IntentWord | None = None
    zone: Word | None = None
    pool: Word | None = None
    region: Word | None = None
    label: list[Word] = Field(
        default_factory=list, max_length=20, description="`key=value`; each one that is given has to fit"
    )
    dialect: Word | None = None
    name: Word | None = Field(None, description="hostname, display name or the name in its dialect")
    all: Literal[True] | None = Field(None, description="every node that is not retired")

    @model_validator(mode="after")
    def _selects(self) -> Self:
        given = self.model_dump(exclude={"all"}, exclude_none=True, exclude_defaults=True)
        if not given and self.all is None:
            raise refused_member("selector", "it names nothing: name something, or say all: true")
        if given and self.all is not None:
            raise refused_member("selector.all", "everything and a selection exclude one another")
        for text in self.label:
            if "=" not in text:
                raise refused_member("selector.label", "a label is written key=value")
        return self

    @property
    def names_every_node(self) -> bool:
        """Whether each node is named by its id, none found by what it is."""
        return self.ids is not None and not self.model_dump(
            exclude={"ids"}, exclude_none=True, exclude_defaults=True
        )


class BulkBody(ActionBody):
    """What to do with each of many nodes."""

    selector: Selector

    @model_validator(mode="after")
    def _spares_others(self) -> Self:
        if self.force and not self.selector.names_every_node:
            what = "what other owners hold is ended" if self.action in ENDS else "workloads lose their place"
            raise refused_member("force", f"{what} on nodes that are named by ids, not on a selection")
        return self


AGENTS_MEMBERS = frozenset(
    [
        "addresses",
        "agent",
        "architecture",
        "boot_id",
        "devices",
        "gates",
        "hostname",
        "interval_s",
        "machine_id",
        "pool",
        "region",
        "resources",
        "role",
        "zone",
    ]
)
DECIDED_MEMBERS = frozenset(["holds", "intent", "schedulable", "state", "retired_at"])
NAMED_WITHIN = frozenset(["labels", "annotations", "reservation"])
JUDGED_MEMBERS = frozenset(["conditions", "liveness", "suspect", "last_heartbeat_at"])


class PatchBody(Decision):
    """What operators declare of a node. A member that is not given stays; null takes away."""

    labels: dict[str, str | None] = Field(
        default_factory=dict,
        description="declared over what the agent reports; null takes a declared one away",
    )
    annotations: dict[str, str | None] = Field(default_factory=dict)
    display_name: Word | None = Field(None, description="null gives way to the reported one")
    reservation: dict[Word, Given | None] = Field(
        default_factory=dict,
        description="amounts by resource that are kept from allocation; null gives way to the reported",
    )

    @model_validator(mode="before")
    @classmethod
    def _has_owners(cls, told: Any) -> Any:  # noqa: ANN401 (whatever was sent)
        for name in told if isinstance(told, dict) else ():
            if name in AGENTS_MEMBERS:
                raise refused_member(
                    name, "the agent reports it: change it at the agent, or declare a label or a reservation"
                )
            if name in DECIDED_MEMBERS:
                raise refused_member(name, "it follows from actions: POST to the node's actions")
            if name in JUDGED_MEMBERS:
                raise refused_member(name, "it follows from what was heard of the node, nobody sets it")
            if name == "allocations":
                raise refused_member(name, "PUT or DELETE the node's allocations/{workload}")
            if name in NAMED_WITHIN and told[name] is None:
                raise refused_member(name, "null is for what is named within it: each name on its own")
        return told

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for member, texts in (("labels", self.labels), ("annotations", self.annotations)):
            for key, value in texts.items():
                _check_label(member, key, value)
        return self


class AllocationBody(Decision):
    """What a workload holds of a node; it replaces what it held there."""

    amounts: dict[Word, Any] = Field(
        default_factory=dict,
        description="by resource, in canonical units; with `dialect` in that dialect's members and units",
    )
    dialect: Word | None = None


class ReleaseQuery(Decision):
    """Of the end of what a workload holds: there is no body."""


def _check_label(member: str, key: str, value: str | None) -> None:
    if key.startswith(PROTECTED):
        raise refused_member(f"{member}.{key[:80]}", f"names that begin with {PROTECTED} are Fleetfold's own")
    if not key:
        raise refused_member(member, "a key is not empty")
    for text in (key, value or ""):
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError:
            raise refused_member(f"{member}.{ascii(key)[:80]}", "it is not valid Unicode") from None
        if size_bytes > MOST_LABEL_BYTES:
            raise refused_member(
                f"{member}.{key[:80]}", f"{size_bytes} bytes, allowed are {MOST_LABEL_BYTES}"
            )


def _names(actions: frozenset[Action]) -> str:
    return ", ".join(sorted(actions))
