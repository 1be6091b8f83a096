"""Shutting a Stratum node down and rebooting it: what was asked, and how far it is (floor 3, pure).

    shutdown   shutting-down -> off -> done
    reboot     rebooting -> done
    either     -> failed, where the node goes on beating long after it should have gone

What is asked is an annotation of the node, an operator's fact. `off` is the evaluator's verdict after it.
`done` is the node's own: the gateway saw it come back, and registered a new boot that names the action. So
each state follows from facts and the last heartbeat; nothing is kept beside them.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from api.dialects.registration import attributes
from projections.state import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from projections.heartbeats import Heartbeat

ANNOTATION = "stratum/power"
BOOTED = "booted"
"""The member of a registration that names the action after which the node booted."""

ACTIONS: tuple[Literal["shutdown", "reboot"], ...] = ("shutdown", "reboot")
STATES = ("shutting-down", "rebooting", "off", "done", "failed")
DELAY = timedelta(seconds=5)
# Between the answer and the moment the host acts: the answer has to arrive first.
GAP_INTERVALS = 1.5
# A beat that did not come is a gap; jitter of a timer and of the network is much less than half an interval.
FAILED_INTERVALS = 15
# A quarter of an hour at a beat a minute: a host that stops its guests first may take ten minutes.

MEANINGS = {
    "shutting-down": "the host powers off at notBefore, or is about to",
    "rebooting": "the host reboots at notBefore, or has not booted again yet",
    "off": "the node was seen gone, and is off until somebody powers it on",
    "done": "the node booted again after the action",
    "failed": "the host went on beating: it did not go down, or was back before a beat was missed",
}


class Power(NamedTuple):
    """What was asked last. `after` is the version of the node that it was asked of."""

    action: str
    generation: int
    not_before: datetime
    after: int
    is_last_control_plane: bool


def asked_of(state: NodeState) -> Power | None:
    """Return the last action on a node, None where there never was one that can be read."""
    text = state.effective_annotations.get(ANNOTATION)
    if text is None:
        return None
    try:
        told = json.loads(text)
        power = Power(
            told["action"],
            told["generation"],
            datetime.fromisoformat(told["notBefore"]),
            told["after"],
            told["lastControlPlane"],
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None  # somebody else wrote the annotation
    is_whole = power.action in ACTIONS and type(power.generation) is int and type(power.after) is int
    return power if is_whole and power.not_before.tzinfo is not None else None


def text_of(state: NodeState, action: str, *, now: datetime, is_last_control_plane: bool) -> str:
    """Return the annotation that asks for an action on a node as it is."""
    last = asked_of(state)
    return json.dumps(
        {
            "action": action,
            "generation": 1 if last is None else last.generation + 1,
            "notBefore": (now + DELAY).isoformat(),
            "after": state.version,
            "lastControlPlane": is_last_control_plane,
        }
    )


def word(state: NodeState, power: Power, beat: Heartbeat | None, *, interval_s: float) -> str:
    """Return the state of an action."""
    if _booted(state).get("generation") == power.generation:
        return "done"
    is_gone = gone_at(state, power) is not None
    if is_gone and power.action == "shutdown":
        return "off"
    due = power.not_before + timedelta(seconds=FAILED_INTERVALS * interval_s)
    if not is_gone and beat is not None and beat.last_heartbeat_at > due:
        return "failed"
    return "shutting-down" if power.action == "shutdown" else "rebooting"


def gone_at(state: NodeState, power: Power) -> datetime | None:
    """Return when the node was judged gone after an action was asked, None while it was not."""
    verdict = state.standing_verdict
    is_gone = verdict is not None and verdict.word == "lost" and verdict.seq > power.after
    return verdict.at if is_gone and verdict is not None else None


def booted(
    state: NodeState, beat: Heartbeat | None, *, now: datetime, interval_s: float
) -> dict[str, Any] | None:
    """Return what a heartbeat that arrives now proves of the last action: that it is done; else None.

    A node that was off is back; one that reboots is back after it missed a beat. A heartbeat while a node
    shuts down proves nothing.
    """
    power = asked_of(state)
    if power is None:
        return None
    found, gone = word(state, power, beat, interval_s=interval_s), gone_at(state, power)
    if found == "rebooting" and gone is None and beat is not None and now >= power.not_before:
        is_gap = now - beat.last_heartbeat_at > timedelta(seconds=GAP_INTERVALS * interval_s)
        return {"generation": power.generation} if is_gap else None
    if found in ("off", "rebooting") and gone is not None:
        return {"generation": power.generation, "goneAt": gone.isoformat()}
    return None


def kept(state: NodeState) -> dict[str, Any]:
    """Return the member of a registration that an earlier one proved, to be said again."""
    return {BOOTED: dict(proof)} if (proof := _booted(state)) else {}


def shown(state: NodeState, beat: Heartbeat | None, *, interval_s: float) -> dict[str, Any] | None:
    """Return the last action as the dialect shows it, None where there never was one."""
    power = asked_of(state)
    if power is None:
        return None
    found = word(state, power, beat, interval_s=interval_s)
    gone: object = gone_at(state, power)
    if found == "done":
        gone = _booted(state).get("goneAt")
    is_shutdown = power.action == "shutdown"
    return {
        "action": power.action,
        "state": found,
        "generation": power.generation,
        "notBefore": power.not_before,
        **({"offAt": gone} if is_shutdown and gone is not None else {}),
        "message": MEANINGS[found],
        "lastControlPlane": power.is_last_control_plane,
        **({"powerOn": {"powerButton": True}} if is_shutdown else {}),
    }


def _booted(state: NodeState) -> Mapping[str, Any]:
    proof = attributes(state).get(BOOTED)
    return proof if isinstance(proof, dict) else {}
