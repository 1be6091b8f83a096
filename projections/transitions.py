"""What operators may do with a node, when, and what follows: one table, and deciding by it (floor 2, pure).

`TABLE` has the rules of each action; the first whose situation applies decides, and the last of each always
applies. The documents print the table and a test walks through it, so neither can say something else.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from events.facts import FactData, Restored, Retired
from projections.parts import Hold
from projections.situations import BY_WORD, ENDS, KIND_OF, PLACES, Action, Situation, Wish, applies, of_kind
from projections.state import NodeState

Outcome = Literal["done", "no_change", "refused"]


class Rule(NamedTuple):
    """What becomes of an action in a situation; `instead` is the right way where it is refused."""

    situation: Situation
    outcome: Outcome
    says: str
    instead: str = ""


class Decided(NamedTuple):
    """What becomes of a wish, in sentences; `fact` is what to append, None where nothing is.

    `says` and `instead` are those of the rule, with the names that one has to know; `follows` is what else is
    so once it is done. `in_the_way` are the holds of other owners that a release is refused for.
    """

    rule: Rule
    fact: FactData | None
    says: str
    instead: str = ""
    follows: tuple[str, ...] = ()
    in_the_way: tuple[Hold, ...] = ()


_UNKNOWN = Rule(
    "unknown", "refused", "there is no such node", "check the id: a node is there once it has registered"
)
_PLACED = "the hold is placed"
_PLACING = (
    _UNKNOWN,
    Rule("retired", "refused", "a retired node takes no hold", "restore it first"),
    Rule("held_the_same", "no_change", "the owner holds it so already"),
    Rule("held_otherwise", "done", "the owner's hold is replaced by this one"),
)
_BELOW = Rule("below_another_hold", "done", f"{_PLACED}, and shows when the graver one has ended")
_ABOVE = Rule("above_another_hold", "done", f"{_PLACED}; the lighter one stays, and shows again after it")
_ENDING = (
    _UNKNOWN,
    Rule("forced", "done", "every owner's hold of this kind ends"),
    Rule("held", "done", "the owner's hold ends; those of other owners stand"),
    Rule(
        "held_by_others",
        "refused",
        "only other owners hold it so",
        "name the owner whose hold is to end, or end all of them with `force`",
    ),
    Rule("held_in_another_way", "refused", "it is held in another way", "use the action that ends that"),
    Rule("any_other", "no_change", "nobody holds it so"),
)

TABLE: dict[Action, tuple[Rule, ...]] = {
    "cordon": (*_PLACING, _BELOW, Rule("any_other", "done", _PLACED)),
    "uncordon": _ENDING,
    "drain": (*_PLACING, _BELOW, _ABOVE, Rule("any_other", "done", _PLACED)),
    "undrain": _ENDING,
    "enter_maintenance": (*_PLACING, _ABOVE, Rule("any_other", "done", _PLACED)),
    "leave_maintenance": _ENDING,
    "retire": (
        _UNKNOWN,
        Rule("retired", "no_change", "it is retired already"),
        Rule("forced_with_workloads", "done", "it is retired, and its workloads hold nothing any more"),
        Rule(
            "has_workloads",
            "refused",
            "workloads are allocated on it",
            "drain it and release them, or retire it with `force`",
        ),
        Rule("beating", "done", "it is retired although it lives; its agent is told so"),
        Rule("any_other", "done", "it is retired, and kept as a tombstone"),
    ),
    "restore": (
        _UNKNOWN,
        Rule("retired", "done", "it is back with the holds it had; verdicts from before count no more"),
        Rule("any_other", "no_change", "it is not retired"),
    ),
}
"""The rules of each action, in the order in which they are tried."""


def decide(state: NodeState | None, wish: Wish) -> Decided:
    """Return what becomes of a wish about a node as it is. Never raises; a refusal is an answer."""
    rule = rule_for(state, wish)
    if state is None:
        return Decided(rule, None, rule.says, rule.instead)
    if rule.outcome == "done":
        return Decided(rule, _fact(state, wish), rule.says, follows=_follows(state, wish, rule))
    match rule.situation:
        case "held_by_others":
            others = of_kind(state, wish)
            return Decided(rule, None, f"{rule.says}: {_listed(others)}", rule.instead, in_the_way=others)
        case "held_in_another_way":
            holds = state.standing_holds
            ends = " or ".join(sorted({BY_WORD[hold.kind].end for hold in holds}))
            return Decided(rule, None, f"{rule.says}: {_listed(holds)}", f"use {ends}")
        case "has_workloads":
            return Decided(rule, None, f"{rule.says}: {', '.join(workloads(state))}", rule.instead)
        case _:
            return Decided(rule, None, rule.says, rule.instead)


def rule_for(state: NodeState | None, wish: Wish) -> Rule:
    """Return the rule that decides: the first of the action whose situation applies."""
    for rule in TABLE[wish.action]:
        if applies(rule.situation, state, wish):
            return rule
    raise AssertionError("the last rule of every action always applies")


def workloads(state: NodeState) -> list[str]:
    """Return the workloads that hold something of a node, in order."""
    return sorted(given.workload for given in state.standing_allocations)


def _fact(state: NodeState, wish: Wish) -> FactData:
    said = {"actor": wish.actor, "reason": wish.reason, "request_id": wish.request_id}
    if wish.action in PLACES:
        placed = KIND_OF[wish.action].placed
        return placed.model_validate(
            {**said, "owner": wish.owner, "until": wish.until, "sticky": wish.sticky}
        )
    if wish.action in ENDS:
        ended = KIND_OF[wish.action].ended
        return ended.model_validate({**said, "owner": None if wish.force else wish.owner})
    if wish.action == "retire":
        return Retired.model_validate({**said, "force": wish.force and bool(state.standing_allocations)})
    return Restored.model_validate(said)


def _follows(state: NodeState, wish: Wish, rule: Rule) -> tuple[str, ...]:
    """Return what else is so once it is done."""
    said: list[str] = []
    if wish.action in PLACES and wish.until is not None:
        said.append(f"it ends by itself at {wish.until:%Y-%m-%dT%H:%M:%SZ}")
    if wish.action in ENDS:
        ended = KIND_OF[wish.action].word
        is_ended = {hold for hold in state.standing_holds if hold.kind == ended and _is_meant(hold, wish)}
        said += [f"still {_told(hold)}" for hold in state.standing_holds if hold not in is_ended]
        if state.retired_at is not None:
            said.append("it stays retired")
    if wish.action == "retire":
        if rule.situation == "forced_with_workloads":
            said.append(f"these lose their place: {', '.join(workloads(state))}")
        if state.liveness == "alive":
            said.append(
                "its heartbeats count no more; an agent that starts anew under this id is another node"
            )
    if wish.action == "restore":
        if state.liveness != "unmonitored":
            said.append("it is pending until its agent is heard again")
        said += [f"still {_told(hold)}" for hold in state.standing_holds]
    return tuple(said)


def _is_meant(hold: Hold, wish: Wish) -> bool:
    return wish.force or hold.owner == wish.owner


def _listed(holds: tuple[Hold, ...]) -> str:
    return "; ".join([_told(hold) for hold in holds])


def _told(hold: Hold) -> str:
    return f"{hold.kind} by {hold.owner}" + (f" ({hold.reason})" if hold.reason else "")
