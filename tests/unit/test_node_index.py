from __future__ import annotations

from events.ids import NodeId
from projections.node_index import NodeIndex


def test_numbers_are_given_in_the_order_in_which_nodes_are_first_named() -> None:
    index = NodeIndex()

    numbers, new = index.of_nodes([NodeId("b"), NodeId("a.1"), NodeId("b")])

    assert numbers.tolist() == [0, 1, 0]
    assert new.node_ids == ("b", "a.1")
    assert index.number(NodeId("b")) is None
    index.add(new)
    assert (index.number(NodeId("b")), index.node_id(1)) == (0, "a.1")


def test_known_nodes_keep_their_numbers_and_new_ones_go_on() -> None:
    index = NodeIndex([NodeId("a"), NodeId("b")])

    numbers, new = index.of_subjects([b"fleet.v1.beat.c", b"fleet.v1.beat.b", b"fleet.v1.beat.d%2E1"])

    assert numbers.tolist() == [2, 1, 3]
    assert (new.node_ids, new.first) == (("c", "d.1"), 2)
    assert b"fleet.v1.beat.a" in index.subjects
    assert b"fleet.v1.beat.c" not in index.subjects
