"""What a batch comes to: rows, announcements, counters, and what could not be read."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from events.codec import encode_json
from events.facts import Alive, Allocated, Registered, Resource, Retired
from events.ids import NodeId
from projections.fold import fold_facts
from projections.rows import AllocationRow
from projections.state import pack, unpack
from tests.support.folding import Tables, batch_of, folded, life
from tests.support.strategies import NODES, NOON, Said, placed, said

CPU = {"cpu": Resource(total=Decimal(64), reserved=Decimal(2), ratio=Decimal("1.5"))}
HERE = Registered(boot_id="b1", seq=1, machine_id="m1", zone="z1", labels={"rack": "r1"}, resources=CPU)


def test_a_first_registration_tells_who_the_node_is_and_what_it_can_hold() -> None:
    told = life(HERE).tables.announcements

    assert [(one.n, one.kind, one.detail, one.before) for one in told] == [
        (0, "identity", "registered", "null"),
        (1, "state", "pending", "null"),
        (2, "capacity", "changed", "null"),
    ]
    assert told[0].after == '{"boot_id":"b1","incarnation":1,"machine_id":"m1"}'
    assert told[1].after == (
        '{"liveness":"pending","reasons":["pending"],"schedulable":false,"state":"pending"}'
    )
    assert json.loads(told[2].after, parse_float=Decimal)["cpu"] == {
        "status": "reported",
        "total": 64,
        "reserved": 2,
        "ratio": Decimal("1.5"),
        "allocatable": 93,
        "allocated": 0,
        "free": 93,
    }
    assert {(one.node_id, one.at, one.actor) for one in told} == {(NODES[0], one.at, "agent") for one in told}


def test_a_move_to_another_zone_is_told_and_begins_a_band() -> None:
    node = life(HERE, Registered(boot_id="b1", seq=2, machine_id="m1", zone="z2"))

    assert node.announced() == ["location.changed", "labels.changed", "capacity.changed"]
    assert [band.zone for band in node.tables.node_history] == ["z1", "z2"]


def test_a_condition_is_told_once_when_it_begins_and_once_when_it_ends() -> None:
    gated = HERE.model_copy(update={"gates": ("driver",), "seq": 2})
    node = life(HERE, Alive(boot_id="b1"), gated, gated.model_copy(update={"seq": 3, "hostname": "h1"}))

    node.tell(HERE.model_copy(update={"seq": 4}))

    told = [one for one in node.tables.announcements if one.kind == "condition"]
    assert [(one.cause_seq, one.detail, one.before, one.after) for one in told] == [
        (3, "raised", "null", '{"conditions":["warming"]}'),
        (5, "cleared", '{"conditions":["warming"]}', "null"),
    ]


def test_the_row_of_a_node_shows_it_and_carries_its_state() -> None:
    node = life(HERE, Alive(boot_id="b1"))

    row = node.tables.nodes[NODES[0]]

    assert (row.state, row.liveness, row.schedulable, row.reasons) == ("ready", "alive", True, [])
    assert (row.version, row.boot_id, row.labels) == (2, "b1", {"rack": "r1"})
    assert unpack(row.packed) == node.state
    assert len(row.packed) < 400


def test_a_usual_node_fits_in_700_bytes() -> None:
    labels = {f"example.org/label-{n}": f"value-{n}" for n in range(8)}
    resources = dict.fromkeys(("cpu", "memory", "disk", "gpu", "vm"), CPU["cpu"])
    node = life(
        Registered(
            boot_id="6f9619ff-8b86-d011-b42d-00c04fc964ff",
            seq=1,
            machine_id="4c4c4544-0043-3510-8052-b4c04f564231",
            hostname="rack-12.node-0345.example.net",
            addresses=("192.0.2.17", "2001:db8::17"),
            region="eu-central",
            zone="eu-central-1a",
            labels=labels,
            resources=resources,
        ),
        Alive(boot_id="6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    )

    assert len(pack(node.state)) <= 700


def test_a_workload_without_amounts_has_a_row_all_the_same() -> None:
    node = life(HERE, Allocated(workload="w"), Allocated(workload="v", amounts={"cpu": Decimal(1)}))
    state = node.state

    assert node.tables.allocations[NODES[0]] == [
        AllocationRow(NODES[0], "v", "cpu", Decimal(1), state.changed_at),
        AllocationRow(NODES[0], "w", "", Decimal(0), state.allocations[0].since),
    ]

    node.tell(Retired())
    assert node.tables.allocations == {}


def test_only_nodes_with_other_devices_or_allocations_have_those_rows_again() -> None:
    node = life(HERE, Allocated(workload="w", amounts={"cpu": Decimal(1)}))
    again = placed([said(Registered(boot_id="b1", seq=2, zone="z9"), NODES[0])])[0]

    result = node.tables.apply([again._replace(seq=3)])

    assert (result.devices, result.allocations) == ({}, {})
    assert len(result.nodes) == 1


def _event(**members: object) -> bytes:
    return json.dumps(
        {"specversion": "1.0", "id": "e1", "source": "/t", "type": "fleetfold.agent.registered.v1"} | members
    ).encode()


BARE = b'{"boot_id":"b1", "seq":1,"resources":{"cpu":{"total":1.10}}}'


@pytest.mark.parametrize(
    ("payload", "data"),
    [
        (BARE, BARE.decode()),
        (said(HERE, NODES[0]).payload, encode_json(HERE).decode()),
        (_event(data={"boot_id": "b1", "seq": 1}, time="2026-05-01T12:00:00Z"), '{"boot_id":"b1","seq":1}'),
        (
            b'{"specversion":"1.0","x":{"datacontenttype":"application/json","data":{"seq":9}},'
            b'"id":"e","source":"/t","type":"fleetfold.agent.registered.v1","data":{"boot_id":"b1","seq":1}}',
            '{"boot_id":"b1","seq":1}',
        ),
        (
            b'{"specversion":"1.0","id":"e","source":"/t","type":"fleetfold.agent.registered.v1",'
            b'"datacontenttype":"application/json","data":{"boot_id":"b1","seq":1,"x":1.10},"time":null}',
            '{"boot_id":"b1","seq":1,"x":1.1}',
        ),
    ],
    ids=["bare", "ours", "another writer", "a nested twin", "data is not last"],
)
def test_a_fact_is_kept_as_its_sender_wrote_it(payload: bytes, data: str) -> None:
    [row] = folded(placed([Said(said(HERE, NODES[0]).subject, payload)])).facts

    assert row.data == data
    assert (row.seq, row.node_id, row.stored_at) == (1, NODES[0], NOON)
    assert row.type == "fleetfold.agent.registered.v1"


@pytest.mark.parametrize("number", ["7" * 5_000, "1.12345678901234567890", "NaN"])
def test_a_number_that_no_float_holds_is_kept_as_it_was_written(number: str) -> None:
    payload = (
        f'{{"specversion":"1.0","data":{{"boot_id":"b1","seq":1,"x":{number}}},"id":"e","source":"/t",'
        '"type":"fleetfold.agent.registered.v1"}'
    )

    [row] = folded(placed([Said(said(HERE, NODES[0]).subject, payload.encode())])).facts

    assert row.data == f'{{"boot_id":"b1","seq":1,"x":{number}}}'


def test_a_type_that_nobody_knows_is_kept_counted_and_skipped() -> None:
    node = life(HERE)
    event = _event(type="fleetfold.operator.knighted.v7", data={"title": "Sir"})
    unknown = placed([Said("fleet.v1.operator.n1.knighted", event)])[0]._replace(seq=2)

    result = node.tables.apply([unknown])

    assert result.counters == {"facts": 1, "unknown_type": 1, "unreadable": 0}
    assert json.loads(result.facts[0].data) == {"title": "Sir"}
    assert node.state.version == 2
    assert result.announcements == []


def test_a_fact_about_a_zone_is_kept_and_touches_no_node() -> None:
    event = {"specversion": "1.0", "id": "e", "source": "/t", "type": "fleetfold.zone.silent.v1"}
    payload = json.dumps(event | {"data": {"count": 3, "members": 4}}).encode()

    result = folded(placed([Said("fleet.v1.zone.~z1.silent", payload)]))

    assert [(row.node_id, row.type) for row in result.facts] == [(None, "fleetfold.zone.silent.v1")]
    assert result.nodes == {}


def test_what_was_treated_is_counted_and_raises_a_condition() -> None:
    payload = b'{"boot_id":"b1","seq":1,"resources":{"gpu":{"total":NaN}}}'

    result = folded(placed([Said("fleet.v1.agent.n1.registered", payload)]))

    state = result.state(NodeId("n1"))
    assert state is not None
    assert state.warnings == ("not_reported:resources.gpu.total",)
    assert result.nodes[NodeId("n1")].conditions == ["report_warnings"]
    assert result.counters["warning.not_reported"] == 1


def test_a_subject_that_is_none_goes_to_quarantine_and_the_rest_goes_on() -> None:
    batch = batch_of(placed([said(HERE, NODES[1]), said(HERE, NODES[0])]))
    batch.subjects[0] = b"fleet.v1.agent.\xff.registered"

    result = fold_facts(batch, lambda _: None)

    assert [(row.reason, row.node_id, row.stream) for row in result.quarantined] == [
        ("invalid_subject", None, "FLEET")
    ]
    assert len(result.nodes) == 1


def test_an_empty_batch_comes_to_nothing() -> None:
    result = Tables().apply([])

    assert (result.states, result.nodes, result.facts) == ({}, [], [])
