"""What would change a node's state, and to what (floor 2, pure).

What each event would make of the node is asked of the fold's own rules: the state is derived from the node as
it would be then, so nothing here can promise what the fold does not keep.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from projections.derive import PENDING, RETIRED, derive
from projections.evidence import Evidence
from projections.evolve_agent import CLAIMS
from projections.evolve_liveness import ALIVE, LOST
from projections.parts import Hold, Verdict
from projections.phrases import ahead, listed
from projections.situations import BY_WORD
from projections.state import NodeState

UNMONITORED = "unmonitored"


class Prospect(NamedTuple):
    """One event and what it would make of the node.

    `state` is the word that the node would have then, None where the event changes no word; `at` is when it
    comes by itself, None where somebody has to do something.
    """

    event: str
    outcome: str
    state: str | None = None
    at: datetime | None = None


def prospects(evidence: Evidence) -> tuple[Prospect, ...]:
    """Return what would change the node, what comes by itself first."""
    state = evidence.state
    if state.retired_at is not None:
        return tuple(_of_retired(evidence))
    found = [*_of_silence(evidence), *_of_heartbeats(evidence)]
    found += [_of_hold(evidence, hold) for hold in state.standing_holds]
    if state.gates:
        gated = _made(evidence, state._replace(gates=()))
        found.append(Prospect(f"a registration that no longer names {listed(state.gates)}", *gated))
    if state.leaving is not None:
        found.append(Prospect("its next registration", "ends its goodbye: new work may come again"))
    if state.conflict:
        found.extend(_of_conflict(state))
    return tuple(found)


def _of_retired(evidence: Evidence) -> list[Prospect]:
    state = evidence.state
    tomb = state.retirement
    assert tomb is not None, "a retired state has a tombstone"
    restored = state._replace(
        retirement=tomb._replace(restored_at=evidence.now, restored_seq=state.version + 1)
    )
    return [
        Prospect("an operator restores it", *_made(evidence, restored)),
        Prospect(
            "a registration of a boot that was never seen",
            f"another machine takes the id: incarnation {state.incarnation + 1}, pending until it beats",
            PENDING,
        ),
        Prospect(
            "a heartbeat or a registration of the retired machine",
            "nothing: its agent is told that it is gone",
        ),
    ]


def _of_silence(evidence: Evidence) -> list[Prospect]:
    """Return what comes of it if the node stays silent."""
    state, outlook, zone = evidence.state, evidence.outlook, evidence.holding_zone
    liveness = evidence.derived.liveness
    if liveness not in (ALIVE, PENDING) or (liveness == PENDING and state.registered_at is None):
        return []
    word = derive(_judged(state, LOST)).state
    if outlook is None or outlook.expected_lost_at is None:
        return [
            Prospect(
                "silence, as things are",
                f"nothing: the evaluator is {evidence.mode}"
                + (f" ({evidence.mode_reason})" if evidence.mode_reason else ""),
            )
        ]
    at = outlook.expected_lost_at
    held = f", since zone {zone.zone} is silent as a whole" if zone is not None else ""
    withheld = ""
    if outlook.reason and zone is None:
        withheld = f", once verdicts are made again ({outlook.reason})"
    when = (
        f"{ahead(at, now=evidence.now)}{held}{withheld}"
        if at > evidence.now
        else f"any moment{held}{withheld}"
    )
    return [Prospect("no heartbeat comes", f"it is called lost: {when}", word, at)]


def _of_heartbeats(evidence: Evidence) -> list[Prospect]:
    state, derived = evidence.state, evidence.derived
    if derived.liveness == UNMONITORED:
        return []
    found = []
    boot = f" of boot {state.boot_id}" if state.boot_id else ""
    if state.registered_at is None:
        found.append(Prospect("its registration", *_registered(evidence)))
    elif evidence.beats_for_another_boot and evidence.beat is not None:
        found.append(
            Prospect(
                f"a registration under boot {evidence.beat.boot_id}, which is the one that beats",
                "its heartbeats count again: pending, then ready unless something else holds it",
                PENDING,
            )
        )
    if derived.liveness in (PENDING, LOST):
        found.append(Prospect(f"a heartbeat{boot}", *_made(evidence, _judged(state, ALIVE))))
    if derived.liveness == LOST and state.boot_id is not None:
        found.append(
            Prospect(f"to register again under boot {state.boot_id}", "nothing: only a heartbeat counts")
        )
        fresh = state._replace(verdict=None)
        found.append(
            Prospect(
                "a registration of a new boot",
                f"{derive(fresh).state}: no verdict was made about that boot yet",
                derive(fresh).state,
            )
        )
    return found


def _of_conflict(state: NodeState) -> list[Prospect]:
    over = "that boot has the node, and the conflict is over"
    return [
        Prospect(f"boot {state.boot_id} is lost or says goodbye, and a boot never seen registers", over),
        Prospect(f"a boot never seen registers {CLAIMS} times without a word of {state.boot_id}", over),
    ]


def _of_hold(evidence: Evidence, hold: Hold) -> Prospect:
    state = evidence.state
    without = state._replace(holds=tuple([other for other in state.holds if other is not hold]))
    outcome, word = _made(evidence, without)
    event = f"{BY_WORD[hold.kind].end} by owner {hold.owner}"
    if hold.until is None:
        return Prospect(event, outcome, word)
    ends = f"{event}, or the end of its time: {ahead(hold.until, now=evidence.now)}"
    return Prospect(ends, outcome, word, hold.until)


def _registered(evidence: Evidence) -> tuple[str, str]:
    """Return what a registration of the boot that beats makes of a node that never registered."""
    state = evidence.state._replace(registered_at=evidence.now, boot_at=evidence.now)
    return _made(evidence, state)


def _made(evidence: Evidence, after: NodeState) -> tuple[str, str]:
    """Return what the node would be in words, and the word of its state."""
    was, now = evidence.derived, derive(after)
    if now.state == was.state and now.reasons == was.reasons:
        return f"it stays {now.state}", now.state
    said = f"it stays {now.state}" if now.state == was.state else f"it becomes {now.state}"
    if now.state != RETIRED and not now.schedulable:
        said += f", not schedulable: {listed(now.reasons)}"
    return said, now.state


def _judged(state: NodeState, word: str) -> NodeState:
    return state._replace(verdict=Verdict(word, state.boot_id, state.changed_at, state.version + 1))
