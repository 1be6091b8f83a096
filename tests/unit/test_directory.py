from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from events.ids import NodeId
from projections.directory import LABELS_IN_ROW, TEXTS, Directory, Listed, NodeFilter


class Node(NamedTuple):
    node_id: str
    state: str = "ready"
    liveness: str = "alive"
    intent: str = "open"
    zone: str | None = None
    pool: str | None = None
    region: str | None = None
    dialect: str | None = None
    native_id: str | None = None
    hostname: str | None = None
    display_name: str | None = None
    labels: Mapping[str, str] = {}


def listed(nodes: list[Node]) -> Listed:
    return Listed(
        node_ids=[NodeId(node.node_id) for node in nodes],
        texts=[[getattr(node, name) for node in nodes] for name in TEXTS],
        label_counts=np.array([len(node.labels) for node in nodes], dtype=np.int64),
        labels=[pair for node in nodes for pair in node.labels.items()],
    )


class Fleet:
    """A directory with numbers as they come, and the same nodes in a dict."""

    def __init__(self) -> None:
        self.directory, self.numbers, self.nodes = Directory(), {}, {}

    numbers: dict[str, int]
    nodes: dict[str, Node]

    def put(self, *nodes: Node) -> Fleet:
        latest = list({node.node_id: node for node in nodes}.values())
        at = [self.numbers.setdefault(node.node_id, len(self.numbers)) for node in latest]
        self.directory.put(np.array(at, dtype=np.int64), listed(latest))
        self.nodes |= {node.node_id: node for node in latest}
        return self

    def page(self, asked: NodeFilter, *, after: str = "", limit: int = 100) -> list[str]:
        return [str(node_id) for node_id in self.directory.page(asked, after=after, limit=limit)]


def test_a_page_is_in_order_of_the_ids_and_goes_on_beyond_the_last() -> None:
    fleet = Fleet().put(Node("c"), Node("a")).put(Node("b"), Node("d"))

    assert fleet.page(NodeFilter(), limit=2) == ["a", "b"]
    assert fleet.page(NodeFilter(), after="b", limit=2) == ["c", "d"]
    assert fleet.page(NodeFilter(), after="bb") == ["c", "d"]
    assert fleet.page(NodeFilter(), after="d") == []


def test_retired_nodes_are_listed_only_where_they_are_asked_for() -> None:
    fleet = Fleet().put(Node("a", state="retired"), Node("b"))

    assert fleet.page(NodeFilter()) == ["b"]
    assert fleet.page(NodeFilter(include_retired=True)) == ["a", "b"]
    assert fleet.page(NodeFilter(state="retired")) == ["a"]


def test_every_filter_has_to_fit() -> None:
    fleet = Fleet().put(
        Node("a", zone="z1", pool="p1", labels={"rack": "1", "env": "x"}),
        Node("b", zone="z1", pool="p2", labels={"rack": "1"}),
        Node("c", zone="z2", pool="p1"),
    )

    assert fleet.page(NodeFilter(zone="z1", pool="p1")) == ["a"]
    assert fleet.page(NodeFilter(labels={"rack": "1"})) == ["a", "b"]
    assert fleet.page(NodeFilter(labels={"rack": "1", "env": "x"})) == ["a"]
    assert fleet.page(NodeFilter(labels={"rack": "2"})) == []
    assert fleet.page(NodeFilter(labels={"1": "rack"})) == []


def test_a_name_fits_a_hostname_a_display_name_or_an_id_in_a_dialect() -> None:
    fleet = Fleet().put(
        Node("a", hostname="x"), Node("b", display_name="x"), Node("c", native_id="x"), Node("x")
    )

    assert fleet.page(NodeFilter(name="x")) == ["a", "b", "c"]


def test_a_node_with_many_labels_is_found_by_each_of_them_and_forgotten_by_those_it_lost() -> None:
    many = {f"k{at}": "v" for at in range(LABELS_IN_ROW + 3)}
    fleet = Fleet().put(Node("a", labels=many), Node("b", labels={"k0": "v"}))

    assert all("a" in fleet.page(NodeFilter(labels={key: "v"})) for key in many)
    fleet.put(Node("a", labels={"k1": "v"}))
    assert [key for key in many if "a" in fleet.page(NodeFilter(labels={key: "v"}))] == ["k1"]


def test_what_a_node_was_before_no_longer_fits() -> None:
    fleet = Fleet().put(Node("a", state="ready", zone="z1")).put(Node("a", state="lost", zone=None))

    assert fleet.page(NodeFilter(state="ready")) == []
    assert fleet.page(NodeFilter(zone="z1")) == []
    assert fleet.page(NodeFilter(state="lost")) == ["a"]


def test_nodes_are_counted_by_state() -> None:
    fleet = Fleet().put(Node("a"), Node("b"), Node("c", state="retired")).put(Node("b", state="lost"))

    assert fleet.directory.count_by_state() == {"ready": 1, "lost": 1, "retired": 1}
    assert Directory().count_by_state() == {}


def test_nodes_are_grouped_by_place_without_lost_and_retired_ones() -> None:
    places = {"a": "z1", "b": "z2", "c": "z1", "d": None}
    fleet = Fleet().put(*[Node(node_id, zone=place) for node_id, place in places.items()])
    fleet.put(Node("e", zone="z1", state="lost"), Node("f", zone="z2", state="retired"))

    numbers, begins = fleet.directory.grouped("zone")

    groups = np.split(numbers, begins[1:])
    assert sorted(sorted(group.tolist()) for group in groups) == [[0, 2], [1], [3]]
    fleet.put(Node("b", zone="z1"), Node("f", zone="z2"))
    numbers, begins = fleet.directory.grouped("zone")
    groups = np.split(numbers, begins[1:])
    assert sorted(sorted(group.tolist()) for group in groups) == [[0, 1, 2], [3], [5]]
    assert [len(column) for column in Directory().grouped("zone")] == [0, 0]


WORDS = st.sampled_from(["x", "y", "z"])
NODES = st.builds(
    Node,
    node_id=st.sampled_from(["a", "b", "B", "ä", "a.b", "rack 2/n"]),
    state=st.sampled_from(["ready", "lost", "retired"]),
    zone=st.none() | WORDS,
    hostname=st.none() | WORDS,
    display_name=st.none() | WORDS,
    labels=st.dictionaries(st.sampled_from([f"k{at}" for at in range(12)]), WORDS, max_size=12),
)
FILTERS = st.builds(
    NodeFilter,
    state=st.none() | st.sampled_from(["ready", "retired"]),
    zone=st.none() | WORDS,
    name=st.none() | WORDS,
    labels=st.dictionaries(st.sampled_from(["k0", "k9"]), WORDS, max_size=1),
    include_retired=st.booleans(),
)


def fits(node: Node, asked: NodeFilter) -> bool:
    return (
        (asked.state is None or node.state == asked.state)
        and (asked.zone is None or node.zone == asked.zone)
        and (asked.name is None or asked.name in (node.hostname, node.display_name, node.native_id))
        and all(node.labels.get(key) == value for key, value in asked.labels.items())
        and (asked.include_retired or asked.state == "retired" or node.state != "retired")
    )


@settings(max_examples=60)
@given(
    st.lists(st.lists(NODES, max_size=4), max_size=4),
    FILTERS,
    st.sampled_from(["", "a", "b"]),
    st.integers(1, 3),
)
def test_a_page_is_what_looking_at_every_node_finds(
    batches: list[list[Node]], asked: NodeFilter, after: str, limit: int
) -> None:
    fleet = Fleet()
    for nodes in batches:
        fleet.put(*nodes)

    expected = sorted(
        node_id for node_id, node in fleet.nodes.items() if node_id > after and fits(node, asked)
    )
    assert fleet.page(asked, after=after, limit=limit) == expected[:limit]
