"""The laws of the fold, each by its name. `events` has the law that encode then decode is the identity."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.codec import Recorded, decode_fact, encode_json
from events.facts import Alive, Allocated, Cordoned, DisplayNameSet, LabelsSet, Registered, Resource, Retired
from events.ids import NodeId
from events.registry import TYPES, FactType, Registry
from events.upcasters import Upcaster
from projections import capacity as capacities
from projections import decide, evolve_agent, packed
from projections.capacity import ABSENT, capacity
from projections.current import latest_capacity
from projections.derive import LOST, RETIRED, derive
from projections.evolve import evolve
from projections.state import CONTENT, OWNERS, NodeState, pack, unpack
from tests.support.facts import any_data
from tests.support.folding import Tables, decoded, folded
from tests.support.strategies import NODES, Log, Record, fact_logs, placed, said

ONE = NODES[:1]
MUCH_LATER = timedelta(days=100)
often = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
# A log has up to 16 facts; run with `--hypothesis-profile` of more examples after a change to the fold.


MEMOS = (
    capacities._as_reported,
    decide._numbers,
    decide._word,
    evolve_agent._reported_as,
    packed._pack_reported,
    packed._reported,
)

_CPU = {"cpu": Resource(total=Decimal(4)), "vm": Resource(total=Decimal(9)), "gpu": Resource()}
SAMPLE = placed(
    [
        said(Registered(boot_id="b1", seq=1, resources=_CPU, labels={"a": "1", "b": "2", "c": "3"}), ONE[0]),
        said(Alive(boot_id="b1"), ONE[0]),
        said(Allocated(workload="w", amounts={"cpu": Decimal(5), "vm": Decimal(10)}), ONE[0]),
        said(LabelsSet(labels={"a": "9", "b": "9", "d": "9"}), ONE[0]),
        said(Cordoned(owner="ops"), ONE[0]),
        said(Registered(boot_id="b2", seq=1), ONE[0]),
        said(Retired(), ONE[0]),
    ]
)
"""A node's life in which many things change at once."""


def _steps(log: Log) -> Iterator[tuple[NodeState | None, Recorded, NodeState | None]]:
    """Yield each readable fact about a node with the states before and after it."""
    states: dict[NodeId, NodeState | None] = {}
    for record in log:
        fact = decoded(record)
        if fact is not None and fact.node_id is not None:
            before = states.get(fact.node_id)
            after = states[fact.node_id] = evolve(before, fact)
            yield before, fact, after


def _content(state: NodeState | None) -> tuple[Any, ...]:
    return () if state is None else (state.changed_at, *tuple(state)[CONTENT])


@often
@given(fact_logs())
def test_replay_equals_live(log: Log) -> None:
    live = Tables()
    for record in log:
        live.apply([record])

    replay = folded(log)

    assert replay == live


@often
@given(fact_logs(), st.sets(st.integers(0, 30)))
def test_how_a_log_is_cut_into_batches_does_not_matter(log: Log, cuts: set[int]) -> None:
    assert folded(log, cuts=cuts) == folded(log)


@often
@given(fact_logs(every=2), st.data())
def test_a_duplicate_changes_nothing(log: Log, data: st.DataObject) -> None:
    once = folded(log)
    twice = list(log)
    if log:
        at = data.draw(st.integers(0, len(log) - 1))
        again = log[at]._replace(seq=log[at].seq + 1, stored_at=log[at].stored_at + MUCH_LATER)
        twice.insert(at + 1, again)

    _check_same_but_for_counters(once, folded(twice))


@often
@given(fact_logs(every=2, is_honest=True), st.data())
def test_a_duplicate_registration_changes_nothing_however_late(log: Log, data: st.DataObject) -> None:
    once = folded(log)
    at = [n for n, record in enumerate(log) if record.subject.endswith(".registered")]
    twice = list(log)
    if at:
        first = data.draw(st.sampled_from(at))
        after = data.draw(st.integers(first, len(log) - 1))
        again = log[first]._replace(seq=log[after].seq + 1, stored_at=log[after].stored_at + MUCH_LATER)
        twice.insert(after + 1, again)

    _check_same_but_for_counters(once, folded(twice))


def _check_same_but_for_counters(once: Tables, twice: Tables) -> None:
    for node_id in {*once.nodes, *twice.nodes}:
        assert _content(twice.state(node_id)) == _content(once.state(node_id))
    assert twice.node_history == once.node_history
    assert twice.capacity_history == once.capacity_history
    assert twice.label_history == once.label_history
    assert twice.announcements == once.announcements
    assert (twice.devices, twice.allocations) == (once.devices, once.allocations)


@often
@given(fact_logs(), st.randoms(use_true_random=False))
def test_events_of_two_nodes_commute(log: Log, random: Any) -> None:  # noqa: ANN401 (hypothesis' own Random)
    queues = [list(of_one) for _, of_one in groupby(sorted(log, key=_node), key=_node)]
    mixed = []
    while queues:
        queue = random.choice(queues)
        mixed.append(queue.pop(0))
        queues = [queue for queue in queues if queue]

    straight, shuffled = folded(log), folded(mixed)

    assert shuffled.nodes == straight.nodes
    for rows in (
        "node_history", "capacity_history", "label_history", "announcements", "facts", "quarantined"
    ):  # fmt: skip
        assert sorted(getattr(shuffled, rows), key=repr) == sorted(getattr(straight, rows), key=repr)


def _node(record: Record) -> str:
    return record.subject.split(".")[3]


def _lift_name(data: dict[str, Any]) -> dict[str, Any]:
    return {**{key: value for key, value in data.items() if key != "name"}, "display_name": data["name"]}


SECOND = Registry(
    (
        *[kind for kind in TYPES if kind.model is not DisplayNameSet],
        FactType("operator", "display_name_set", DisplayNameSet, version=2),
    ),
    (Upcaster("fleetfold.operator.display_name_set", 1, _lift_name),),
)


@given(fact_logs(nodes=ONE, max_size=10), st.none() | st.sampled_from(["x", "y"]))
def test_upcast_then_fold_equals_fold_of_the_newest(log: Log, name: str | None) -> None:
    states = [after for _, _, after in _steps(log)]
    before = states[-1] if states else None

    old = evolve(before, _named({"name": name}, version=1))
    new = evolve(before, _named({"display_name": name}, version=2))

    assert old == new
    assert new is not None
    assert new.effective_display_name in (name, new.display_name)


def _named(data: dict[str, Any], *, version: int) -> Recorded:
    kind = f"fleetfold.operator.display_name_set.v{version}"
    event = {"specversion": "1.0", "id": "e", "source": "/t", "type": kind, "data": data}
    at_ns = placed([said(DisplayNameSet(), ONE[0])])[0].stored_at_ns
    return decode_fact(
        seq=1000,
        stored_at_ns=at_ns,
        subject="fleet.v1.operator.n1.display_name_set",
        payload=encode_json(event),
        registry=SECOND,
    )


@often
@given(fact_logs(nodes=ONE))
def test_no_event_order_lets_a_retired_node_hold_work_or_be_lost_again(log: Log) -> None:
    for before, fact, after in _steps(log):
        if after is None or after.lifecycle != RETIRED:
            continue
        assert after.standing_allocations == ()
        assert capacity(after) == ()
        assert derive(after).state == RETIRED
        if before is not None and before.lifecycle == RETIRED:
            assert after.verdict == before.verdict
            told = decide.announced(decide.seen(before), decide.seen(after), fact)
            assert (LOST, "alive") not in [(one.kind, one.detail) for one in told]
            assert not [one for one in told if one.kind in ("state", "lifecycle")]


@often
@given(fact_logs(nodes=ONE))
def test_an_agent_report_changes_no_operator_platform_or_liveness_fact(log: Log) -> None:
    for before, fact, after in _steps(log):
        if before is None or after is None:
            continue
        changed = {name for name in NodeState._fields if getattr(before, name) != getattr(after, name)}
        assert changed <= {*OWNERS[fact.owner], *OWNERS["log"]}


def test_every_field_of_a_state_has_one_owner() -> None:
    owned = [name for names in OWNERS.values() for name in names]

    assert sorted(owned) == sorted(NodeState._fields)


@often
@given(fact_logs(nodes=ONE))
def test_bands_of_a_history_are_contiguous_and_cover_the_range_once(log: Log) -> None:
    tables = Tables()
    for record in log:
        tables.apply([record])
        state = tables.state(ONE[0])
        if state is None:
            assert tables.node_history == []
        else:
            _check_last_bands(tables, state)

    _check_bands([(band.valid_from, band.cause_seq, band[1:9]) for band in tables.node_history])
    for resource in {band.resource for band in tables.capacity_history}:
        bands = [band for band in tables.capacity_history if band.resource == resource]
        assert bands[0].status != ABSENT
        _check_bands([(band.valid_from, band.cause_seq, band[2:9]) for band in bands])
    for key in {band.key for band in tables.label_history}:
        labels = [band for band in tables.label_history if band.key == key]
        assert labels[0].value is not None
        _check_bands([(band.valid_from, band.cause_seq, band[2:4]) for band in labels])


def _check_last_bands(tables: Tables, state: NodeState) -> None:
    """Check that the open band of each history says what is now."""
    now = tables.node_history[-1]
    derived = derive(state)
    assert now[1:5] == (derived.state, state.liveness, derived.intent, derived.schedulable)
    assert now[5:9] == (state.region, state.zone, state.pool, state.incarnation)
    open_bands = latest_capacity(tables.capacity_history)
    assert {name: row[2:9] for (_, name), row in open_bands.items() if row is not None} == {
        one.resource: one[1:8] for one in capacity(state)
    }
    labels = {band.key: band.value for band in tables.label_history}
    assert {key: value for key, value in labels.items() if value is not None} == state.effective_labels


def _check_bands(bands: list[tuple[Any, int, tuple[Any, ...]]]) -> None:
    """Check that each band begins where the one before ends, later in the log, with something else."""
    for (begun, cause, said_then), (ended, next_cause, said_next) in pairwise(bands):
        assert begun <= ended
        assert cause < next_cause
        assert said_then != said_next


@often
@given(fact_logs())
def test_the_same_fact_log_gives_the_same_announcements_byte_for_byte(log: Log) -> None:
    first = folded(log).announcements
    for memo in MEMOS:
        memo.cache_clear()

    assert folded(log).announcements == first
    assert [(one.cause_seq, one.n) for one in first] == sorted({(one.cause_seq, one.n) for one in first})


ANNOUNCE = """
from tests.unit.test_laws import SAMPLE
from tests.support.folding import folded
print(folded(SAMPLE).announcements)
"""


def test_announcements_do_not_depend_on_the_process() -> None:
    spoken = {
        subprocess.run(
            [sys.executable, "-c", ANNOUNCE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(spoken) == 1
    assert b"deficit" in spoken.pop()


@often
@given(fact_logs())
def test_pack_then_unpack_is_the_identity(log: Log) -> None:
    for _, _, after in _steps(log):
        if after is not None:
            assert unpack(pack(after)) == after
            assert pack(unpack(pack(after))) == pack(after)


@often
@given(st.lists(any_data, max_size=8))
def test_no_fact_of_the_log_makes_the_fold_fail(data: list[Any]) -> None:
    log = placed([said(one, NODES[0]) for one in data if not type(one).__name__.startswith("Zone")])

    tables = folded(log, cuts=range(len(log)))

    assert len(tables.facts) == len(log)
    assert tables == folded(log)
