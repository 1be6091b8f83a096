"""Under which version of a node a change is wished: `If-Match` over HTTP, `version` over NATS (floor 3).

A change that names one is made only where nothing was said about the node since it was read; else it is a 412
`version_conflict` with both versions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from fastapi import Header

from api.nodes import known
from api.problems import INVALID_PARAMETER, VERSION_CONFLICT, ProblemError
from events.errors import ConflictError

if TYPE_CHECKING:
    from api.answers import Answers
    from api.writing import Decide, Writer, Written
    from events.ids import NodeId
    from projections.state import NodeState

IfMatch = Annotated[
    str | None, Header(alias="If-Match", description="the ETag that was read; else whatever it is by now")
]
_ETAG = re.compile(r'\s*"([0-9]{1,19})"\s*')


async def write_under(
    answers: Answers, writer: Writer, node_id: NodeId, decide: Decide, *, version: int | None, event_id: str
) -> Written:
    """Write where the node is at `version`, or whatever it is where that is None; raises as `Writer.write`.

    Raises unknown_node, and version_conflict (412) where it is at another version.
    """
    if version is None:
        return await writer.write(node_id, decide, event_id=event_id)
    known(answers, node_id, answers.as_of())
    try:
        return await writer.write(node_id, decide, expect=version, event_id=event_id)
    except ConflictError as err:
        raise _conflict(answers, err) from err


def check(answers: Answers, state: NodeState, *, version: int | None) -> None:
    """Raise version_conflict where a node is at another version than the one that was read."""
    if version is not None and version != state.version:
        raise _conflict(answers, ConflictError(state.node_id, expected=version, found=state.version))


def version_of(if_match: str | None) -> int | None:
    """Return the version that a header names, None for none or `*`; raise invalid_parameter for another.

    A weak tag or one that no node ever had is refused too, since it could never match.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    found = _ETAG.fullmatch(if_match)
    if found is None:
        raise ProblemError(
            INVALID_PARAMETER,
            'If-Match: one ETag as an answer gave it, such as "17", or *',
            members={"parameter": "If-Match"},
        )
    return int(found[1])


def _conflict(answers: Answers, err: ConflictError) -> ProblemError:
    return ProblemError(
        VERSION_CONFLICT,
        str(err),
        status=412,
        members={"expected": err.expected, "found": err.found, "as_of": answers.as_of().members()},
    )
