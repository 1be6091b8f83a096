"""Nodes that share a handle: conditions that follow from more than one node, whatever order facts come in."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.facts import DisplayNameSet, FactData, Registered, Restored, Retired
from events.ids import NodeId
from projections.handles import (
    DUPLICATE_ADDRESS,
    MACHINE_ID_SHARED,
    NAME_SHARED,
    SHARED_CONDITIONS,
    Handle,
    handles,
)
from projections.sharing import NOBODY, Conditions, HandleColumn, changed, indexed
from projections.state import NodeState, unpack
from tests.support.folding import Tables, life
from tests.support.strategies import NODES, Log, fact_logs, placed, said

N1, N2 = NODES
N3 = NodeId("n3")
NUMBERS = {N1: 0, N2: 1, N3: 2}


class Fleet:
    """Nodes folded batch after batch, with the index beside them as memory keeps it."""

    def __init__(self) -> None:
        self.tables, self.sharing = Tables(), NOBODY
        self.conditions: dict[int, Conditions] = {}
        self.changes: list[dict[int, Conditions]] = []

    def tell(self, log: Log) -> None:
        known = {NUMBERS[node_id]: row.packed for node_id, row in self.tables.nodes.items()}
        folded = self.tables.apply(log)
        after = changed(
            self.sharing,
            {NUMBERS[node_id]: one for node_id, one in folded.handles.items()},
            had=self.conditions,
            handles_of=lambda number: handles(unpack(known[number])),
        )
        self.sharing = after.sharing
        self.conditions |= after.conditions
        self.changes.append(dict(after.conditions))

    def say(self, about: NodeId, data: FactData) -> dict[NodeId, Conditions]:
        """Fold one fact; return the conditions of nodes that have others than before."""
        seq = len(self.tables.facts) + 1
        self.tell([placed([said(data, about)])[0]._replace(seq=seq)])
        names = {number: node_id for node_id, number in NUMBERS.items()}
        return {names[number]: has for number, has in self.changes[-1].items()}


def _naive(tables: Tables) -> dict[int, Conditions]:
    made: dict[NodeId, tuple[Handle, ...]] = {
        node_id: handles(unpack(row.packed)) for node_id, row in tables.nodes.items()
    }
    counts = Counter(handle for each in made.values() for handle in each)
    found = {}
    for node_id, each in made.items():
        shared = {condition for condition, text in each if counts[condition, text] > 1}
        if shared:
            found[NUMBERS[node_id]] = tuple(one for one in SHARED_CONDITIONS if one in shared)
    return found


@settings(max_examples=60)
@given(fact_logs(nodes=(N1, N2, N3)), st.sets(st.integers(0, 30)))
def test_what_nodes_share_follows_from_what_they_are_however_the_log_is_cut(log: Log, cuts: set[int]) -> None:
    fleet = Fleet()
    for begin, end in pairwise(sorted({0, len(log), *[cut for cut in cuts if cut < len(log)]})):
        fleet.tell(log[begin:end])

    assert {number: has for number, has in fleet.conditions.items() if has} == _naive(fleet.tables)


@settings(max_examples=30)
@given(fact_logs(nodes=(N1, N2, N3)))
def test_an_index_that_was_kept_is_one_that_is_made_anew(log: Log) -> None:
    fleet = Fleet()
    for record in log:
        fleet.tell([record])

    states = [unpack(row.packed) for row in fleet.tables.nodes.values()]
    anew = indexed(_columns(states))

    assert fleet.sharing.hashes.tolist() == anew.hashes.tolist()
    for handle in {handle for state in states for handle in handles(state)}:
        assert fleet.sharing.holders(handle) == anew.holders(handle)


def _columns(states: list[NodeState]) -> list[HandleColumn]:
    made = [
        (condition, NUMBERS[state.node_id], text) for state in states for condition, text in handles(state)
    ]
    kinds = {one: [(number, text) for on, number, text in made if on == one] for one in SHARED_CONDITIONS}
    return [
        HandleColumn(one, np.array([number for number, _ in of], np.int64), [text for _, text in of])
        for one, of in kinds.items()
    ]


def test_what_a_node_has_twice_is_one_handle_and_none_is_none() -> None:
    both = HandleColumn(NAME_SHARED, np.array([3, 4]), ["h", None])
    again = HandleColumn(NAME_SHARED, np.array([3, 4]), ["h", ""])

    found = indexed([both, again])

    assert found.holders((NAME_SHARED, "h")) == [3]
    assert len(found.hashes) == 1


def test_a_shared_address_is_raised_once_on_both_and_cleared_once_on_both() -> None:
    fleet = Fleet()

    raised = [
        fleet.say(N1, Registered(boot_id="b1", seq=1, addresses=("10.0.0.7",))),
        fleet.say(N2, Registered(boot_id="b1", seq=1, addresses=("10.0.0.7", "10.0.0.8"))),
        fleet.say(N2, Registered(boot_id="b1", seq=2, addresses=("10.0.0.7", "10.0.0.9"))),
        fleet.say(N3, Registered(boot_id="b1", seq=1, addresses=("10.0.0.7",))),
        fleet.say(N3, Registered(boot_id="b1", seq=2, addresses=("10.0.0.3",))),
    ]
    cleared = fleet.say(N2, Registered(boot_id="b1", seq=3, addresses=("10.0.0.9",)))

    alone: Conditions = ()
    both = (DUPLICATE_ADDRESS,)
    assert raised == [{}, {N1: both, N2: both}, {}, {N3: both}, {N3: alone}]
    assert cleared == {N1: alone, N2: alone}


def test_an_address_that_moves_from_one_node_to_another_leaves_nothing_behind() -> None:
    fleet = Fleet()
    fleet.say(N1, Registered(boot_id="b1", seq=1, addresses=("192.0.2.108",)))
    fleet.say(N1, Registered(boot_id="b1", seq=2, addresses=("192.0.2.177",)))

    assert fleet.say(N2, Registered(boot_id="b1", seq=1, addresses=("192.0.2.108",))) == {}


def test_a_name_is_shared_whether_it_is_reported_or_declared() -> None:
    fleet = Fleet()
    fleet.say(N1, Registered(boot_id="b1", seq=1, hostname="cmp-17", display_name="cmp-17"))

    assert fleet.say(N2, Registered(boot_id="b1", seq=1, hostname="cmp-18")) == {}
    assert fleet.say(N2, DisplayNameSet(display_name="cmp-17")) == {N1: (NAME_SHARED,), N2: (NAME_SHARED,)}
    assert fleet.say(N2, DisplayNameSet()) == {N1: (), N2: ()}


def test_clones_of_one_image_share_their_hardware_id() -> None:
    fleet = Fleet()
    fleet.say(N1, Registered(boot_id="b1", seq=1, machine_id="uuid-0000"))

    both = (MACHINE_ID_SHARED,)
    assert fleet.say(N2, Registered(boot_id="b2", seq=1, machine_id="uuid-0000")) == {N1: both, N2: both}


def test_a_retired_node_has_no_handles_until_it_is_restored() -> None:
    fleet = Fleet()
    for node in (N1, N2):
        fleet.say(node, Registered(boot_id="b1", seq=1, hostname="h1"))

    assert fleet.say(N1, Retired()) == {N1: (), N2: ()}
    assert fleet.say(N1, Restored()) == {N1: (NAME_SHARED,), N2: (NAME_SHARED,)}


def test_nodes_of_one_batch_share_among_themselves() -> None:
    fleet = Fleet()

    fleet.tell(placed([said(Registered(boot_id="b1", seq=1, hostname="h"), one) for one in (N1, N2, N3)]))

    assert fleet.changes == [dict.fromkeys((0, 1, 2), (NAME_SHARED,))]


@pytest.mark.parametrize(
    ("addresses", "own"),
    [
        (["127.0.0.1", "169.254.3.4", "0.0.0.0", "::1", "fe80::1%eth0", "::"], []),
        (["2001:DB8:0:0::1", "2001:db8::1"], ["2001:db8::1"]),
        (
            ["10.0.0.1", "10.0.0.1:80", "[2001:db8::1]:80", ""],
            ["10.0.0.1", "10.0.0.1:80", "[2001:db8::1]:80"],
        ),
    ],
)
def test_an_address_is_compared_in_its_one_spelling_and_only_if_it_is_a_nodes_own(
    addresses: list[str], own: list[str]
) -> None:
    state = life(Registered(boot_id="b1", seq=1, addresses=tuple(addresses))).state

    assert handles(state) == tuple((DUPLICATE_ADDRESS, text) for text in own)
