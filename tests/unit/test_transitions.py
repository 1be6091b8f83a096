"""The table of transitions: every rule by example, made from the table itself, and laws of all of them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.facts import (
    Alive,
    Allocated,
    Cordoned,
    Drained,
    FactData,
    MaintenanceEntered,
    Registered,
    Retired,
)
from projections.situations import ACTIONS, ENDS, KIND_OF, KINDS, PLACES, SITUATIONS, Action, Situation, Wish
from projections.transitions import TABLE, Rule, decide, rule_for, workloads
from tests.support.folding import Life, folded, life
from tests.support.strategies import NODES, NOON, Log, fact_logs, placed, said

HERE = Registered(boot_id="b1", seq=1)
WORK = Allocated(workload="vm-1", amounts={"cpu": Decimal(2)})
RULES = [(action, rule) for action in ACTIONS for rule in TABLE[action]]


def _wish(action: Action, *, force: bool = False) -> Wish:
    return Wish(action, owner="ops", actor="ada", reason="disk", request_id="r1", force=force)


def _example(action: Action, situation: Situation) -> tuple[list[FactData], Wish]:  # noqa: PLR0911, PLR0912
    """Facts after which a node is in a situation, and a wish; no facts for an unknown one."""
    wish = _wish(action)
    match situation:
        case "unknown":
            return [], wish
        case "retired":
            return [HERE, Retired()], wish
        case "held_the_same":
            return [HERE, KIND_OF[action].placed(owner="ops", reason="disk")], wish
        case "held_otherwise":
            return [HERE, KIND_OF[action].placed(owner="ops", reason="fans", until=NOON)], wish
        case "below_another_hold":
            return [HERE, MaintenanceEntered(owner="ops")], wish
        case "above_another_hold":
            return [HERE, Cordoned(owner="ops")], wish
        case "forced":
            return [HERE, KIND_OF[action].placed(owner="hw-team")], wish._replace(force=True)
        case "held":
            placed_by = [KIND_OF[action].placed(owner=owner) for owner in ("ops", "hw-team")]
            return [HERE, *placed_by], wish
        case "held_by_others":
            return [HERE, KIND_OF[action].placed(owner="hw-team", reason="segfaults")], wish
        case "held_in_another_way":
            other = Drained if action == "uncordon" else Cordoned
            return [HERE, other(owner="ops")], wish
        case "forced_with_workloads":
            return [HERE, WORK], wish._replace(force=True)
        case "has_workloads":
            return [HERE, WORK], wish
        case "beating":
            return [HERE, Alive(boot_id="b1")], wish
        case "any_other":
            return [HERE], wish


def _told(action: Action, situation: Situation) -> tuple[Life, Wish]:
    facts, wish = _example(action, situation)
    return life(*facts), wish


@pytest.mark.parametrize(
    ("action", "rule"), RULES, ids=[f"{action}-{rule.situation}" for action, rule in RULES]
)
def test_each_rule_decides_in_its_situation(action: Action, rule: Rule) -> None:
    facts, wish = _example(action, rule.situation)
    state = life(*facts).state if facts else None

    decided = decide(state, wish)

    assert decided.rule == rule
    assert (decided.fact is not None) == (rule.outcome == "done")
    assert decided.says.startswith(rule.says)
    assert bool(decided.instead) == (rule.outcome == "refused")


DONE = [(action, rule) for action, rule in RULES if rule.outcome == "done"]


@pytest.mark.parametrize(
    ("action", "rule"), DONE, ids=[f"{action}-{rule.situation}" for action, rule in DONE]
)
def test_what_is_done_is_so_afterwards_and_not_done_again(action: Action, rule: Rule) -> None:
    node, wish = _told(action, rule.situation)
    before = node.state
    decided = decide(before, wish)
    assert decided.fact is not None

    node.tell(decided.fact)

    after = node.state
    if action in PLACES:
        hold = after.standing_holds[-1]
        assert (hold.kind, hold.owner, hold.reason) == (KIND_OF[action].word, "ops", "disk")
        assert len(after.standing_holds) == len(before.standing_holds) + (rule.situation != "held_otherwise")
    elif action in ENDS:
        left = {hold.owner for hold in after.standing_holds}
        assert left == (set() if rule.situation == "forced" else {"hw-team"})
    else:
        assert (after.retired_at is not None) == (action == "retire")
        assert after.standing_allocations == ()
    assert rule_for(after, wish).outcome != "done"


def test_every_action_and_situation_is_in_the_table_and_the_last_rule_always_applies() -> None:
    assert tuple(TABLE) == ACTIONS
    assert {rule.situation for _, rule in RULES} == set(SITUATIONS)
    assert {rules[-1].situation for rules in TABLE.values()} == {"any_other"}
    assert {kind.place for kind in KINDS} == PLACES


def test_a_refusal_names_what_is_in_the_way_and_the_right_way() -> None:
    held = decide(*_state_of("uncordon", "held_by_others"))
    assert held.says == "only other owners hold it so: cordoned by hw-team (segfaults)"
    assert [hold.owner for hold in held.in_the_way] == ["hw-team"]

    drained = decide(*_state_of("uncordon", "held_in_another_way"))
    assert (drained.says, drained.instead) == ("it is held in another way: draining by ops", "use undrain")

    assert decide(*_state_of("retire", "has_workloads")).says == "workloads are allocated on it: vm-1"
    assert decide(*_state_of("cordon", "retired")).instead == "restore it first"


def test_what_follows_is_said() -> None:
    assert decide(*_state_of("uncordon", "held")).follows == ("still cordoned by hw-team",)
    assert decide(*_state_of("retire", "forced_with_workloads")).follows == ("these lose their place: vm-1",)
    assert "its heartbeats count no more" in decide(*_state_of("retire", "beating")).follows[0]
    state, wish = _state_of("drain", "any_other")
    assert decide(state, wish._replace(until=NOON)).follows == ("it ends by itself at 2026-05-01T12:00:00Z",)


def _state_of(action: Action, situation: Situation):  # noqa: ANN202 (a state and a wish)
    node, wish = _told(action, situation)
    return node.state, wish


wishes = st.builds(
    Wish,
    action=st.sampled_from(ACTIONS),
    owner=st.sampled_from(["x", "y"]),
    actor=st.just("ada"),
    reason=st.sampled_from(["", "disk"]),
    until=st.sampled_from([None, NOON]),
    sticky=st.booleans(),
    force=st.booleans(),
)


@given(log=fact_logs(nodes=NODES[:1]), wish=wishes)
def test_whatever_was_said_one_rule_decides_and_doing_it_twice_is_doing_it_once(log: Log, wish: Wish) -> None:
    tables = folded(log)
    before = tables.state(NODES[0])
    decided = decide(before, wish)
    if decided.fact is None:
        return
    assert before is not None

    last = log[-1]
    record = placed([said(decided.fact, NODES[0])])[0]
    tables.apply([record._replace(seq=last.seq + 1, stored_at=last.stored_at)])

    after = tables.state(NODES[0])
    assert after is not None
    assert decide(after, wish).fact is None
    others = [hold for hold in before.standing_holds if hold.owner != wish.owner]
    if not wish.force:
        assert [hold for hold in after.standing_holds if hold.owner != wish.owner] == others
    if wish.action == "retire":
        assert workloads(after) == []
