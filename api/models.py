"""What the shapes of all answers are made of, for the OpenAPI document and for readers (floor 3).

Answers are written by hand as JSON and never pass through these models on their way out; tests parse them
strictly against them. Times are RFC 3339 in UTC; sizes (`memory`, `disk`) are bytes, `cpu` is in cores,
`gpu` in devices, `vm` in slots, other resources in the unit that their agent uses. An amount is a number
with all of its digits; null means unknown, which is not 0; a resource that is not listed does not exist on
the node.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

Amount = Annotated[
    Decimal,
    WithJsonSchema(
        {"type": "number", "description": "exact: integers without a point, decimals with all digits"}
    ),
]
StateWord = Literal["pending", "ready", "lost", "cordoned", "draining", "maintenance", "retired"]
LivenessWord = Literal["pending", "alive", "lost", "unmonitored"]
IntentWord = Literal["open", "cordoned", "draining", "maintenance"]
GroupWord = Literal["resource", "zone", "pool", "region"]


class Shape(BaseModel):
    """An object with these members and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")


class AsOf(Shape):
    """The state that the answer speaks of: everything stored before `time` is in it."""

    epoch: str = Field(
        description="when the stream FLEET was created: positions of another epoch mean another log"
    )
    seq: int = Field(description="the position in FLEET that is folded at least")
    time: datetime | None = Field(description="null only before the first fact")
    lag_ms: int | None = Field(
        description="for how long the oldest record not folded yet has been waiting; null: not known yet"
    )


class Answer(Shape):
    """An answer says which state it speaks of."""

    as_of: AsOf


class Page(Answer):
    """One page of a list; the next begins at `next_cursor`, null on the last."""

    next_cursor: str | None


class Problem(BaseModel):
    """RFC 9457. Some problems have members of their own: `parameter`, `nearest`, `node`, `error_id`, …"""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str = Field(description="stable: what programs compare")
