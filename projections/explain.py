"""Why a node is what it is, in sentences (floor 2, pure): the verdict first, then what it rests on."""

from __future__ import annotations

from typing import NamedTuple

from projections.conditions import Condition, conditions, explained
from projections.derive import LOST, PENDING, READY, RETIRED
from projections.evidence import Evidence
from projections.parts import Hold
from projections.phrases import ago, ahead, clock, listed, span
from projections.prospects import Prospect, prospects


class Explanation(NamedTuple):
    """`summary` is one sentence that begins with the state, `because` what it rests on, a sentence each."""

    summary: str
    because: tuple[str, ...]
    would_change: tuple[Prospect, ...]
    conditions: tuple[Condition, ...]


def explain(evidence: Evidence) -> Explanation:
    """Return why a node is what it is, and what would change it. Never raises."""
    state, derived = evidence.state, evidence.derived
    has = conditions(state, derived, shared=evidence.shared, beat=evidence.beat)
    return Explanation(
        summary=_summary(evidence),
        because=(
            *_of_lifecycle(evidence),
            *_of_verdict(evidence),
            *_of_beats(evidence),
            *_of_judging(evidence),
            *[_of_hold(evidence, hold) for hold in state.standing_holds],
            *_of_agent(evidence),
        ),
        would_change=prospects(evidence),
        conditions=explained(has, state, sharers=evidence.sharers, beat=evidence.beat),
    )


def _summary(evidence: Evidence) -> str:
    state, derived, now = evidence.state, evidence.derived, evidence.now
    match derived.state:
        case word if word == RETIRED:
            return f"retired: {_tombstone(evidence)}"
        case word if word == LOST:
            said = f"lost {_silence(evidence)}"
        case word if word == PENDING:
            said = f"pending: {_waits(evidence)}"
        case word if word == READY and derived.liveness == "unmonitored":
            said = f"ready: {_unmonitored(evidence)}"
        case word if word == READY:
            said = f"ready: {_heard(evidence)}"
        case word:
            by = listed([_held(hold) for hold in state.standing_holds if hold.kind == word])
            said = f"{word} {by}; it is {derived.liveness}"
    if derived.state == READY and derived.reasons:
        said += f"; it takes no new work: {listed(derived.reasons)}"
    if evidence.is_suspect and evidence.outlook is not None:
        silent_s = evidence.outlook.silent_s
        said += f", and suspect: silent for {span(silent_s or 0.0)}"
        lost_at = evidence.outlook.expected_lost_at
        if lost_at is not None:
            said += f", lost at {clock(lost_at, now=now)} unless a heartbeat comes"
    return said


def _tombstone(evidence: Evidence) -> str:
    tomb = evidence.state.retirement
    assert tomb is not None, "a retired state has a tombstone"
    why = f": {tomb.reason}" if tomb.reason else ""
    return (
        f"{tomb.actor or 'an operator'} took it out of the fleet at {clock(tomb.at, now=evidence.now)}{why}"
    )


def _silence(evidence: Evidence) -> str:
    judged, verdict = evidence.judged, evidence.state.standing_verdict
    assert verdict is not None, "nothing but a verdict makes a node lost"
    since = f"since {ago(verdict.at, now=evidence.now)}"
    if judged is None or judged.silent_s is None or judged.grace_s is None:
        return f"{since}: it was silent for longer than its grace"
    return f"{since}: it was silent for {judged.silent_s:.1f} s, allowed are {judged.grace_s:g} s"


def _waits(evidence: Evidence) -> str:
    state, beat = evidence.state, evidence.beat
    if state.registered_at is None:
        return (
            "it beats and never registered" if beat is not None else "it was spoken of and never registered"
        )
    if evidence.derived.liveness != PENDING:
        return f"it waits for {listed(state.gates)}" if state.gates else "it is not ready"
    if beat is not None and beat.boot_id == state.boot_id:
        return f"heartbeats of boot {state.boot_id} come, and no verdict on them was made yet"
    return f"no heartbeat of boot {state.boot_id} has come since it registered"


def _unmonitored(evidence: Evidence) -> str:
    name = (evidence.state.dialect or {}).get("name")
    return f"{name or 'its agent'} sends no heartbeats, so nobody judges its silence"


def _heard(evidence: Evidence) -> str:
    beat = evidence.beat
    return (
        f"last heartbeat {ago(beat.last_heartbeat_at, now=evidence.now)}" if beat else "it was judged alive"
    )


def _of_lifecycle(evidence: Evidence) -> list[str]:
    state, now = evidence.state, evidence.now
    tomb, said = state.retirement, []
    if tomb is not None and tomb.restored_at is not None and tomb.incarnation == state.incarnation:
        said.append(
            f"it was retired at {clock(tomb.at, now=now)} and restored at {clock(tomb.restored_at, now=now)}"
        )
    if state.incarnation > 1:
        said.append(f"it is machine number {state.incarnation} under this id")
    return said


def _of_verdict(evidence: Evidence) -> list[str]:
    state, derived, now = evidence.state, evidence.derived, evidence.now
    verdict = state.standing_verdict
    if derived.state == RETIRED:
        return []
    if derived.liveness == "unmonitored":
        return ["no verdict is ever made: it sends no heartbeats"]
    if verdict is None:
        return [f"no verdict was made about boot {state.boot_id}" if state.boot_id else "no verdict was made"]
    rule = f": {evidence.judged.rule}" if evidence.judged is not None and evidence.judged.rule else ""
    return [f"judged {verdict.word} at {clock(verdict.at, now=now)} by fact {verdict.seq}{rule}"]


def _of_beats(evidence: Evidence) -> list[str]:
    beat = evidence.beat
    if beat is None:
        return [] if evidence.derived.liveness == "unmonitored" else ["no heartbeat of it was ever received"]
    said = [
        f"last heartbeat {ago(beat.last_heartbeat_at, now=evidence.now)}: number {beat.last_seq} "
        f"of boot {beat.boot_id}"
    ]
    counts = {
        "never came": beat.missed,
        "came twice": beat.duplicates,
        "came late": beat.reordered,
        "were of an earlier boot": beat.other_boot,
    }
    counted = [f"{count} {what}" for what, count in counts.items() if count]
    if counted:
        said.append(f"of its heartbeats, {listed(counted)}")
    if evidence.beats_for_another_boot:
        said.append(
            f"the heartbeats are of boot {beat.boot_id}, but {evidence.state.boot_id} is registered: "
            "they count for nothing until their boot registers"
        )
    return said


def _of_judging(evidence: Evidence) -> list[str]:
    outlook, zone, now = evidence.outlook, evidence.zone, evidence.now
    if evidence.derived.state == RETIRED or evidence.derived.liveness == "unmonitored":
        return []
    said = []
    if outlook is not None:
        every = f"a heartbeat is expected every {outlook.interval_s:g} s, and " if outlook.interval_s else ""
        said.append(f"{every}after {outlook.grace_s:g} s of watched silence it is lost")
    if evidence.mode != "watching":
        why = f": {evidence.mode_reason}" if evidence.mode_reason else ""
        said.append(f"the evaluator is {evidence.mode}{why}")
    holding = evidence.holding_zone
    if holding is not None and holding.held_until is not None:
        counts = "" if holding.silent is None else f" ({holding.silent} of {holding.members} nodes)"
        said.append(
            f"zone {holding.zone} fell silent at {clock(holding.since, now=now)}{counts}: "
            f"single verdicts are held until {ahead(holding.held_until, now=now)}"
        )
    elif zone is not None and zone.is_silent:
        said.append(
            f"zone {zone.zone} has been silent since {clock(zone.since, now=now)}, "
            "and verdicts are no longer held"
        )
    return said


def _of_hold(evidence: Evidence, hold: Hold) -> str:
    now = evidence.now
    until = f", until {ahead(hold.until, now=now)}" if hold.until is not None else ""
    return f"{hold.kind} since {clock(hold.at, now=now)} {_held(hold)}{until}"


def _held(hold: Hold) -> str:
    by = f"by {hold.owner}" + (f" ({hold.actor})" if hold.actor and hold.actor != hold.owner else "")
    return f"{by}: {hold.reason}" if hold.reason else by


def _of_agent(evidence: Evidence) -> list[str]:
    state, now = evidence.state, evidence.now
    said = []
    if state.gates:
        said.append(f"it waits for {listed(state.gates)}, as it says itself")
    if state.leaving is not None:
        cause = f" ({state.leaving.cause})" if state.leaving.cause else ""
        back = state.leaving.expect_back_at
        until = f", to be back at {clock(back, now=now)}" if back is not None else ""
        said.append(f"it said goodbye at {clock(state.leaving.at, now=now)}{cause}{until}")
    if state.conflict:
        said.append(
            f"{listed(state.conflict)} report under this id in turn; the record stays with {state.boot_id}"
        )
    return said
