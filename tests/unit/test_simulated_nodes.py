"""Which machines a simulation brings up."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from events.codec import decode_fact
from events.digest import payload_digest
from events.errors import RefusedError
from events.facts import Registered
from fleetfold.agent import messages
from fleetfold.simulated_nodes import MIB, SimulatedNode, from_csv, invented

REAL = Path(__file__).parents[2] / "docs" / "data" / "openb_node_list_all_node.csv"


def registered(node: SimulatedNode) -> tuple[Registered, str]:
    """What the log would hold of a node, and the digest that a reader computes of it."""
    said = messages.registration(
        node.node_id, boot_id="b", seq=1, at=datetime.now(UTC), inventory=node.inventory, digest=node.digest
    )
    data = decode_fact(seq=1, stored_at_ns=0, subject=said.subject, payload=said.payload).data
    assert isinstance(data, Registered)
    return data, payload_digest(said.payload)


def test_the_real_fleet_has_exactly_the_totals_of_its_file() -> None:
    with REAL.open(newline="") as lines:
        nodes = list(from_csv(lines, interval_s=10))

    resources = [registered(node)[0].resources for node in nodes]
    assert len(nodes) == len({node.node_id for node in nodes}) == 1_523
    assert sum(r["cpu"].total or 0 for r in resources) == 125_514
    assert sum(r["memory"].total or 0 for r in resources) == 612_028_416 * MIB
    assert sum(r["gpu"].total or 0 for r in resources if "gpu" in r) == 6_212
    models = sum(r[name].total or 0 for r in resources for name in r if name.startswith("gpu."))
    assert models == 6_212


def test_a_thousandth_of_a_core_is_exact() -> None:
    lines = ["sn,cpu_milli,memory_mib,gpu,model", "n1,1001,1,0,", "n2,33,1,1,T4"]

    one, two = (registered(node)[0].resources for node in from_csv(lines, interval_s=10))

    assert (str(one["cpu"].total), str(two["cpu"].total)) == ("1.001", "0.033")
    assert "gpu" not in one
    assert two["gpu.T4"].total == 1


@pytest.mark.parametrize("lines", [[], ["a,b"], ["sn,cpu_milli,memory_mib,gpu,model", "n1,many,1,0,"]])
def test_a_file_that_is_no_list_of_nodes_is_refused(lines: list[str]) -> None:
    with pytest.raises(RefusedError, match=r"not a list of nodes|line 2 of the file has no numbers"):
        list(from_csv(lines, interval_s=10))


def test_the_same_seed_invents_the_same_fleet() -> None:
    first = list(invented(500, prefix="sim-", seed=7, interval_s=10))

    assert first == list(invented(500, prefix="sim-", seed=7, interval_s=10))
    assert first != list(invented(500, prefix="sim-", seed=8, interval_s=10))
    assert len({node.node_id for node in first}) == 500
    assert {node.inventory["pool"] for node in first} == {"general", "memory", "edge", "gpu"}


def test_the_digest_of_a_simulated_node_is_that_of_its_registration() -> None:
    with REAL.open(newline="") as lines:
        nodes = [*invented(200, prefix="x", seed=1, interval_s=2.5), *from_csv(lines, interval_s=10)]

    assert all(registered(node)[1] == node.digest == messages.digest_of(node.inventory) for node in nodes)
