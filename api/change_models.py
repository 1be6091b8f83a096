"""The shapes of answers to decisions (floor 3); `api.models` says how their members are written."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from api.models import Answer, IntentWord, Shape, StateWord
from api.node_models import Hold, NodeAnswer


class NodeWord(Shape):
    """What a node is, in a few words."""

    state: StateWord
    intent: IntentWord
    schedulable: bool


class Change(Shape):
    """What a decision did."""

    outcome: Literal["done", "no_change"] = Field(description="`no_change`: it was so already")
    says: str
    follows: list[str] = Field(description="what else is so then, and what one may not expect")
    facts: list[int] = Field(description="positions in FLEET of what was written; none in a dry run")
    dry_run: bool
    before: NodeWord | None
    after: NodeWord | None


class ChangedNodeAnswer(NodeAnswer):
    """The node as it is after a decision, and what changed. The ETag is its new version."""

    change: Change


class ChangedOne(Shape):
    """What became of one node of many."""

    id: str
    outcome: Literal["done", "no_change", "skipped", "refused", "failed"] = Field(
        description="`skipped`: only other owners hold it so; `refused`: see `says` and `instead`; "
        "`failed`: nobody knows, see `says`"
    )
    says: str
    instead: str = Field(description="the right way, where it was skipped or refused")
    follows: list[str]
    facts: list[int]
    holds: list[Hold] = Field(description="what holds the node afterwards, whoever placed it")
    before: NodeWord | None
    after: NodeWord | None = Field(description="in a dry run, what it is now")


class BulkAnswer(Answer):
    """What became of each node, by node id."""

    dry_run: bool
    counts: dict[str, int] = Field(description="nodes by outcome")
    items: list[ChangedOne]
