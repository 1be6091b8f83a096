"""Why a node is what it is: its verdict, what that rests on, and what would change it (floor 3).

Here it is gathered: from memory, from the tables, and the last heartbeats from the broker, which may be away:
then the rest is answered, and says so. What it means is decided in `projections.explain`.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, NamedTuple

from fastapi import APIRouter, Query, Response

from api.answers import Answer, Answers, AsOf, answer
from api.node_item import heartbeats_item, hold_item
from api.nodes import IdInPath, change_item
from api.parameters import Parameters
from api.problems import UNKNOWN_NODE, ProblemError
from api.routing import native_router, node_in_path
from api.why_models import WhyAnswer
from events.errors import BrokerUnavailableError
from events.newest_beats import newest_beats
from projections import queries, why_queries
from projections.derive import derive
from projections.evidence import Evidence
from projections.explain import explain

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from events.ids import NodeId
    from events.newest_beats import StoredBeat
    from projections.evidence import Judged, ZoneSilence
    from projections.judging import Outlook
    from projections.queries import Change
    from projections.state import NodeState

LAST_BEATS = 10
LAST_CHANGES = 10
# What fits on a screen beside the rest; the timeline and BEATS themselves have the others.
INTERVAL_S = 10.0
# Of a node that names none, while no evaluator says what it goes by: only how far back beats are looked up.
NO_CONNECTION = "this service has no connection to a broker"


def router(answers: Answers) -> APIRouter:
    """Return the route `nodes/{id}/why`."""
    routes = native_router(tag="nodes")

    @routes.get(
        "/nodes/{node_id}/why",
        response_model=WhyAnswer,
        summary="Why one node is what it is, retired or not, and what would change it",
    )
    async def get_why(node_id: IdInPath, asked: Annotated[Parameters, Query()]) -> Response:
        return (await of_node(answers, node_in_path(node_id), asked)).http()

    return routes


async def of_node(answers: Answers, asked: NodeId, parameters: Parameters) -> Answer:
    """Answer why a node is what it is; raise unknown_node, with what was seen, where no fact was about it."""
    await answers.reached(parameters.min_seq)
    as_of, projection = answers.as_of(), answers.projection
    state = projection.node(asked)
    if state is None:
        raise await _unknown(answers, asked, as_of)
    outlook = answers.service.outlook(asked)
    told, beats = await asyncio.gather(
        answers.questions.ask(lambda cursor: _told(cursor, state)), _beats(answers, state, outlook)
    )
    evidence = Evidence(
        state=state,
        derived=derive(state),
        now=datetime.now(UTC),
        beat=projection.heartbeat(asked),
        outlook=outlook,
        judged=told.judged,
        zone=told.zone,
        mode=answers.service.liveness_mode(),
        mode_reason=answers.service.liveness_reason(),
        shared=projection.conditions_shared(asked),
        sharers=projection.sharers(asked),
    )
    return answer({**_item(evidence, told.changes), **beats}, as_of)


class _Told(NamedTuple):
    judged: Judged | None
    zone: ZoneSilence | None
    changes: list[Change]


def _told(cursor: DuckDBPyConnection, state: NodeState) -> _Told:
    verdict = state.standing_verdict
    return _Told(
        why_queries.judged(cursor, verdict.seq) if verdict is not None else None,
        why_queries.zone_silence(cursor, state.zone) if state.zone is not None else None,
        queries.timeline(cursor, state.node_id, limit=LAST_CHANGES),
    )


async def _beats(answers: Answers, state: NodeState, outlook: Outlook | None) -> dict[str, object]:
    """Return the last heartbeats as the broker holds them, or why they could not be looked up."""
    if answers.service.nc is None:
        return {"last_beats": None, "last_beats_unknown": NO_CONNECTION}
    interval_s = (outlook.interval_s if outlook else None) or state.interval_s or INTERVAL_S
    span = timedelta(seconds=min(interval_s, 86_400.0) * (LAST_BEATS + 2))
    try:
        found = await newest_beats(answers.service.nc, state.node_id, most=LAST_BEATS + 1, span=span)
    except BrokerUnavailableError as err:
        return {"last_beats": None, "last_beats_unknown": err.why}
    rows = [_beat(beat, before) for before, beat in zip([None, *found], found, strict=False)]
    return {"last_beats": rows[::-1][:LAST_BEATS], "last_beats_unknown": ""}


def _beat(beat: StoredBeat, before: StoredBeat | None) -> dict[str, object]:
    late = None if beat.sent_at is None else beat.stored_at - beat.sent_at
    since = None if before is None else beat.stored_at - before.stored_at
    return {
        "beat_seq": beat.seq,
        "stored_at": beat.stored_at,
        "boot_id": beat.boot_id,
        "seq": beat.boot_seq,
        "sent_at": beat.sent_at,
        "delay_ms": None if late is None else round(late / timedelta(milliseconds=1)),
        "since_previous_ms": None if since is None else round(since / timedelta(milliseconds=1)),
        "unreadable": beat.unreadable,
    }


def _item(evidence: Evidence, changes: list[Change]) -> dict[str, object]:
    state, derived, beat = evidence.state, evidence.derived, evidence.beat
    explained = explain(evidence)
    return {
        "id": state.node_id,
        "state": derived.state,
        "liveness": derived.liveness,
        "liveness_since": state.liveness_since,
        "intent": derived.intent,
        "lifecycle": state.lifecycle,
        "schedulable": derived.schedulable,
        "reasons": derived.reasons,
        "summary": explained.summary,
        "because": explained.because,
        "would_change": [prospect._asdict() for prospect in explained.would_change],
        "conditions": [condition._asdict() for condition in explained.conditions],
        "verdict": _verdict(evidence),
        "judging": _judging(evidence),
        "heartbeats": heartbeats_item(beat) if beat else None,
        "last_heartbeat_at": beat.last_heartbeat_at if beat else None,
        "inventory_at": state.inventory_at,
        "changed_at": state.changed_at,
        "holds": [hold_item(hold) for hold in state.standing_holds],
        "retirement": _retirement(state),
        "leaving": state.leaving._asdict() if state.leaving else None,
        "identity": _identity(state),
        "changes": [change_item(change) for change in changes],
        "version": state.version,
    }


def _verdict(evidence: Evidence) -> dict[str, object] | None:
    verdict, judged = evidence.state.standing_verdict, evidence.judged
    if verdict is None:
        return None
    return {
        "word": verdict.word,
        "boot_id": verdict.boot_id,
        "since": verdict.at,
        "cause_seq": verdict.seq,
        "rule": judged.rule if judged else "",
        "last_heartbeat_at": judged.last_heartbeat_at if judged else None,
        "beat_seq": judged.beat_seq if judged else None,
        "silent_s": judged.silent_s if judged else None,
        "grace_s": judged.grace_s if judged else None,
        "deadline_at": judged.deadline_at if judged else None,
    }


def _judging(evidence: Evidence) -> dict[str, object]:
    outlook, zone = evidence.outlook, evidence.zone
    return {
        "mode": evidence.mode,
        "reason": evidence.mode_reason,
        "withheld": outlook.reason if outlook else "",
        "interval_s": outlook.interval_s if outlook else None,
        "grace_s": outlook.grace_s if outlook else None,
        "silent_s": outlook.silent_s if outlook else None,
        "suspect": evidence.is_suspect,
        "expected_lost_at": outlook.expected_lost_at if outlook else None,
        "zone": None if zone is None else {**zone._asdict(), "is_holding": evidence.holding_zone is not None},
    }


def _retirement(state: NodeState) -> dict[str, object] | None:
    tomb = state.retirement
    if tomb is None:
        return None
    return {
        "at": tomb.at,
        "actor": tomb.actor,
        "reason": tomb.reason,
        "incarnation": tomb.incarnation,
        "restored_at": tomb.restored_at,
    }


def _identity(state: NodeState) -> dict[str, object]:
    return {
        "boot_id": state.boot_id,
        "boot_at": state.boot_at,
        "previous_boots": state.previous_boots,
        "machine_id": state.machine_id,
        "incarnation": state.incarnation,
        "conflict": state.conflict,
        "first_registered_at": state.first_registered_at,
        "registered_at": state.registered_at,
        "reports": {
            "duplicates": state.duplicates,
            "reordered": state.reordered,
            "identical": state.identical,
            "of_the_retired": state.zombies,
        },
    }


async def _unknown(answers: Answers, asked: NodeId, as_of: AsOf) -> ProblemError:
    beat = answers.projection.heartbeat(asked)
    rejects = await answers.questions.ask(lambda cursor: why_queries.rejects(cursor, asked))
    seen = []
    if beat is not None:
        seen.append(f"it beats (last at {beat.last_heartbeat_at:%Y-%m-%dT%H:%M:%SZ}, boot {beat.boot_id})")
    seen += [
        f"{one.records} of its records in {one.stream} could not be read (last: {one.last_reason})"
        for one in rejects
    ]
    return ProblemError(
        UNKNOWN_NODE,
        f"no fact was ever about {asked!r}; {', and '.join(seen) or 'nothing else was seen of it either'}",
        members={
            "id": asked,
            "heartbeats": None
            if beat is None
            else {**heartbeats_item(beat), "last_heartbeat_at": beat.last_heartbeat_at},
            "unreadable": [one._asdict() for one in rejects],
            "as_of": as_of.members(),
        },
    )
