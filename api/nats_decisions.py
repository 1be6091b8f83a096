"""What operators and schedulers do over NATS: the bodies of HTTP with the node's id in them (floor 3).

    fleet.api.v1.action     ActionQuestion: hold, release, retire or restore one node
    fleet.api.v1.actions    BulkBody: the same for a selection
    fleet.api.v1.patch      PatchQuestion: declare labels, annotations, a display name, a reservation
    fleet.api.v1.allocate   AllocateQuestion: what a workload holds of a node
    fleet.api.v1.release    ReleaseQuestion: that it holds nothing any more

Who may ask is the broker's to say, by its permissions on these subjects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from faststream.nats import NatsResponse
from pydantic import Field

from api import actions, allocations, bulk, node_patch
from api.decisions import SOURCE
from api.said import ActionBody, AllocationBody, BulkBody, PatchBody, ReleaseQuery
from api.writing import Writer
from events.ids import node_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from api.answers import Answer, Answers

MOST_NODES = 500
# Their answer has to fit into one message of 1 MiB, whatever holds them: a thousand may not.

_NODE_ID = "the node id as it is, not encoded"


Version = Annotated[int | None, Field(ge=0, description="the version that was read, as If-Match over HTTP")]


class ActionQuestion(ActionBody):
    """What to do with a node."""

    node_id: str = Field(description=_NODE_ID, min_length=1)
    version: Version = None


class PatchQuestion(PatchBody):
    """What to declare of a node."""

    node_id: str = Field(description=_NODE_ID, min_length=1)
    version: Version = None


class AllocateQuestion(AllocationBody):
    """What a workload holds of a node; it replaces what it held there."""

    node_id: str = Field(description=_NODE_ID, min_length=1)
    workload: str
    version: Version = None


class ReleaseQuestion(ReleaseQuery):
    """Which workload holds nothing of a node any more."""

    node_id: str = Field(description=_NODE_ID, min_length=1)
    workload: str
    version: Version = None


def subscribe(
    question: Callable[..., Callable[..., Any]],
    replied: Callable[[Awaitable[Answer]], Awaitable[NatsResponse]],
    answers: Answers,
) -> None:
    """Declare these questions; `question` and `replied` are those of `api.nats_questions`."""
    writer = Writer(answers, source=SOURCE)

    @question(
        "action", says="Hold, release, retire or restore a node, as POST /fleet/v1/nodes/{node_id}/actions"
    )
    async def action_question(asked: ActionQuestion) -> NatsResponse:
        which = node_id(asked.node_id)
        return await replied(actions.act(answers, writer, which, asked, version=asked.version))

    @question("actions", says="The same for the nodes that fit, as POST /fleet/v1/actions")
    async def actions_question(asked: BulkBody) -> NatsResponse:
        return await replied(bulk.act_on_all(answers, writer, asked, most=MOST_NODES))

    @question("patch", says="Declare something of a node, as PATCH /fleet/v1/nodes/{node_id}")
    async def patch_question(asked: PatchQuestion) -> NatsResponse:
        which = node_id(asked.node_id)
        return await replied(node_patch.declare(answers, writer, which, asked, version=asked.version))

    @question(
        "allocate", says="What a workload holds, as PUT /fleet/v1/nodes/{node_id}/allocations/{workload}"
    )
    async def allocate_question(asked: AllocateQuestion) -> NatsResponse:
        which = node_id(asked.node_id)
        done = allocations.allocate(answers, writer, which, asked.workload, asked, version=asked.version)
        return await replied(done)

    @question("release", says="The end of that, as DELETE /fleet/v1/nodes/{node_id}/allocations/{workload}")
    async def release_question(asked: ReleaseQuestion) -> NatsResponse:
        which = node_id(asked.node_id)
        done = allocations.release(answers, writer, which, asked.workload, asked, version=asked.version)
        return await replied(done)
