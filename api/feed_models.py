"""The shapes of the feed of changes (floor 3); `api.models` says how their members are written."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from api.models import AsOf, Page, Shape


class ChangeFrame(Shape):
    """What became different about a node, and the fact that did it."""

    frame: Literal["change"]
    at: datetime
    node_id: str
    kind: str = Field(description="identity, lifecycle, state, intent, capacity, labels, …")
    detail: str = Field(description="which change: lost, flapping, changed, replaced, …")
    before: dict[str, Any] | None = Field(
        description="the members that are others now; null where there was nothing"
    )
    after: dict[str, Any] | None
    omitted: list[Literal["before", "after"]] = Field(
        default_factory=list, description="what is too long to be told; left out where nothing is"
    )
    cause_seq: int = Field(description="the fact's position in FLEET")
    n: int = Field(description="counts the announcements of that fact, from 0")
    cause_type: str
    cause_at: datetime = Field(description="when the broker stored the fact")
    actor: str
    reason: str
    cursor: str = Field(description="the position after it; also the id of the event in CHANGES")


class GapFrame(Shape):
    """Facts that are gone: what they changed is not known, and the snapshot says what is."""

    frame: Literal["gap"]
    from_: int = Field(alias="from")
    to: int
    reason: str
    snapshot: str
    cursor: str


class Whereabouts(Shape):
    """A life of the log and a position in it."""

    epoch: str
    cursor: str


class EpochFrame(Shape):
    """The log is another one (`epoch`) or went back (`rewound`): take the snapshot, go on after `cursor`."""

    frame: Literal["epoch"]
    detail: Literal["epoch", "rewound"]
    before: Whereabouts
    after: Whereabouts
    snapshot: str
    cursor: str


class CaughtUpFrame(Shape):
    """All that is folded was told; what follows is told as it is folded."""

    frame: Literal["caught_up"]
    cursor: str
    as_of: AsOf


class ChangesAnswer(Page):
    """Changes in their order. Ask again after `next_cursor`, also where these were the last so far."""

    items: list[Annotated[ChangeFrame | GapFrame, Field(discriminator="frame")]]
    next_cursor: str | None = Field(description="the position after the page; null: nothing was ever folded")
    caught_up: bool = Field(description="whether there were no more when this was answered")
