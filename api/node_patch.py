"""What operators declare of a node: `PATCH /nodes/{id}`, and the same over NATS (floor 3).

Several members are stored together or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Response

from api.actions import ActorHeader, RequestHeader, named
from api.change_models import ChangedNodeAnswer
from api.changed import REPEATED, Changed, changed_node, event_id_of
from api.declaring import consequences, declarations
from api.nodes import IdInPath, known, refuse_retired
from api.routing import native_router, node_in_path
from api.said import OPERATOR, PatchBody
from api.versions import IfMatch, version_of, write_under

if TYPE_CHECKING:
    from api.answers import Answer, Answers
    from api.writing import Writer, Written
    from events.facts import FactData
    from events.ids import NodeId
    from projections.state import NodeState


def router(answers: Answers, writer: Writer) -> APIRouter:
    """Return the route that declares."""
    routes = native_router(tag="operators")

    @routes.patch(
        "/nodes/{node_id}",
        response_model=ChangedNodeAnswer,
        summary="Declare labels, annotations, a display name, a reservation",
    )
    async def patch_node(
        node_id: IdInPath,
        asked: PatchBody,
        if_match: IfMatch = None,
        actor: ActorHeader = None,
        request_id: RequestHeader = None,
    ) -> Response:
        told = named(asked, actor=actor, request_id=request_id)
        version = version_of(if_match)
        return (await declare(answers, writer, node_in_path(node_id), told, version=version)).http()

    return routes


async def declare(
    answers: Answers, writer: Writer, node_id: NodeId, asked: PatchBody, *, version: int | None
) -> Answer:
    """Declare what is asked, and answer with the node.

    Raises unknown_node, node_retired, and version_conflict (412) where it is not at `version`.
    """
    known(answers, node_id, answers.as_of())
    actor = asked.actor or OPERATOR

    def facts(state: NodeState | None) -> list[FactData]:
        as_of = answers.as_of()
        now = known(answers, node_id, as_of) if state is None else state
        refuse_retired(answers, now, as_of)
        return declarations(now, asked, actor=actor)

    event_id = event_id_of(node_id, asked.request_id or "", asked.model_dump(exclude_unset=True))
    written = await write_under(answers, writer, node_id, facts, version=version, event_id=event_id)
    assert written.before is not None, "an unknown node is refused"
    assert written.state is not None, "it was declared about"
    return changed_node(answers, written.before, written.state, _change(written.before, asked, written))


def _change(before: NodeState, asked: PatchBody, written: Written) -> Changed:
    if written.is_repeated:
        return Changed("no_change", REPEATED, facts=written.seqs)
    follows = consequences(before, asked)
    if written.seqs:
        return Changed("done", "it is declared", follows, written.seqs)
    return Changed("no_change", "it is declared so already", follows)
