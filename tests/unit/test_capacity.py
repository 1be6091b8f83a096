"""Five numbers per resource: exact, and zero, unknown and absent apart."""

from __future__ import annotations

import json
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.amounts import PLACES
from events.facts import (
    Allocated,
    CapacityDeclared,
    DeclaredResource,
    Device,
    Registered,
    Released,
    Resource,
    Retired,
)
from projections.capacity import MOST, ResourceCapacity, capacity
from projections.current import latest_capacity
from tests.support.folding import Life, folded, life
from tests.support.strategies import NODES, placed, said


def reported(seq: int = 1, **resources: dict[str, Any]) -> Registered:
    return Registered.model_validate({"boot_id": "b1", "seq": seq, "resources": resources})


def of(node: Life) -> dict[str, ResourceCapacity]:
    return {one.resource: one for one in capacity(node.state)}


def test_free_is_what_is_left_of_the_allocatable() -> None:
    node = life(reported(gpu={"total": 1}), Allocated(workload="w", amounts={"gpu": Decimal(1)}))

    gpu = of(node)["gpu"]
    assert (gpu.total, gpu.allocatable, gpu.allocated, gpu.free) == (1, 1, 1, 0)

    node.tell(Released(workload="w"))
    assert of(node)["gpu"].free == 1


@pytest.mark.parametrize(
    ("resource", "total", "reserved", "ratio", "allocatable"),
    [
        ("cpu", 100, None, 1.15, "115"),
        ("cpu", 64, 2, 1.5, "93"),
        ("cpu", 3, 0, 0.3333, "0.999"),
        ("memory", 10, 3, 1.5, "10"),
        ("memory", 9007199254740993, 0, 3, "27021597764222979"),
        ("vm", 2.9, None, None, "2"),
        ("cpu", 8, 1, 0, "0"),
    ],
)
def test_the_reservation_goes_off_before_the_ratio_and_all_is_exact(
    resource: str, total: float, reserved: float | None, ratio: float | None, allocatable: str
) -> None:
    node = life(reported(**{resource: {"total": total, "reserved": reserved, "ratio": ratio}}))

    assert of(node)[resource].allocatable == Decimal(allocatable)


def test_more_reserved_than_there_is_leaves_nothing_and_is_flagged() -> None:
    node = life(reported(cpu={"total": 4, "reserved": 6}))

    assert of(node)["cpu"].allocatable == 0
    assert of(node)["cpu"].flags == ("over_reserved",)
    assert node.derived.conditions == ("over_reserved",)


def test_what_was_declared_of_the_machine_before_may_be_declared_of_this_one_again() -> None:
    declared = CapacityDeclared(resources={"cpu": DeclaredResource(total=Decimal(5))})
    records = placed(
        [
            said(one, NODES[0])
            for one in (
                Registered(
                    boot_id="b1", seq=1, machine_id="m1", resources={"cpu": Resource(total=Decimal(4))}
                ),
                declared,
                Registered(
                    boot_id="b3", seq=1, machine_id="m2", resources={"cpu": Resource(total=Decimal(4))}
                ),
                declared,
            )
        ]
    )

    at_once, one_by_one = folded(records), folded(records, cuts=[1, 2, 3])

    assert [band.total for band in at_once.capacity_history] == [4, 5, 4, 5]
    assert at_once.capacity_history == one_by_one.capacity_history


def test_work_that_holds_less_than_nothing_is_kept_as_it_was_said_and_flagged() -> None:
    node = life(
        reported(cpu={"total": 4}), Allocated(workload="w", amounts={"cpu": Decimal(-2), "gpu": Decimal(-1)})
    )

    assert (of(node)["cpu"].allocated, of(node)["cpu"].free) == (-2, 6)
    assert of(node)["cpu"].flags == of(node)["gpu"].flags == ("negative_allocation",)
    assert node.derived.conditions == ("negative_allocation",)
    node.tell(Allocated(workload="w", amounts={"cpu": Decimal(2)}))
    assert node.derived.conditions == ()


def test_a_ratio_lowered_under_the_work_leaves_a_negative_rest_and_is_said_once() -> None:
    node = life(
        reported(cpu={"total": 64, "reserved": 0, "ratio": 4}),
        Allocated(workload="w", amounts={"cpu": Decimal(100)}),
    )

    node.tell(CapacityDeclared(resources={"cpu": DeclaredResource(ratio=Decimal(1))}))
    assert (of(node)["cpu"].allocatable, of(node)["cpu"].free) == (64, -36)
    assert node.derived.conditions == ("overcommitted",)
    assert node.announced() == ["capacity.changed", "capacity.deficit", "condition.raised"]

    node.tell(Allocated(workload="v", amounts={"cpu": Decimal(1)}))
    assert node.announced() == ["capacity.changed"]


def test_what_is_declared_wins_number_by_number_and_outlives_reports() -> None:
    node = life(reported(cpu={"total": 64, "reserved": 2}))

    node.tell(
        CapacityDeclared(resources={"cpu": DeclaredResource(reserved=Decimal(8))}),
        reported(2, cpu={"total": 32, "reserved": 1, "ratio": 2}),
    )
    assert of(node)["cpu"][2:6] == (32, 8, 2, 48)

    node.tell(CapacityDeclared(resources={"cpu": None}))
    assert of(node)["cpu"].reserved == 1


def test_zero_unknown_and_absent_are_three_things() -> None:
    node = life(reported(zero={"total": 0}, unknown={"total": None}))

    resources = of(node)
    assert (resources["zero"].status, resources["zero"].free) == ("reported", 0)
    assert (resources["unknown"].status, resources["unknown"].total, resources["unknown"].free) == (
        "unknown",
        None,
        None,
    )
    assert "absent" not in resources


def test_a_source_that_fails_makes_a_total_unknown_and_the_last_one_is_kept() -> None:
    node = life(reported(gpu={"total": 16}))

    node.tell(reported(2, gpu={"total": 0, "source": "error"}))
    gpu = of(node)["gpu"]
    assert (gpu.status, gpu.total, gpu.last_known) == ("unknown", None, 16)
    assert node.announced() == ["capacity.changed"]
    told = json.loads(node.tables.announcements[-1].after)
    assert told["gpu"]["source"] == "error"
    assert told["gpu"]["total_last_known"] == 16

    node.tell(reported(3, gpu={"total": None, "source": "error"}))
    assert node.state.identical == 1
    node.tell(reported(4, gpu={"total": 8}))
    assert (of(node)["gpu"].total, of(node)["gpu"].last_known) == (8, None)


def test_work_on_a_resource_that_nobody_reports_is_shown_as_unknown() -> None:
    node = life(reported(), Allocated(workload="w", amounts={"vm": Decimal(1)}))

    vm = of(node)["vm"]
    assert (vm.status, vm.allocated, vm.free, vm.flags) == ("unknown", 1, None, ())


def test_gpus_are_counted_where_only_their_devices_are_reported() -> None:
    devices = (
        Device(id="g0", kind="gpu"),
        Device(id="g1", kind="gpu", healthy=False),
        Device(id="n", kind="nic"),
    )
    node = life(Registered(boot_id="b1", seq=1, devices=devices))

    assert of(node)["gpu"][2:6] == (2, 1, None, 1)
    assert node.derived.conditions == ("device_unhealthy",)
    assert [row.device_id for row in node.tables.devices[node.state.node_id]] == ["g0", "g1", "n"]


def test_a_device_keeps_since_when_it_is_as_it_is() -> None:
    def with_devices(seq: int, *devices: Device) -> Registered:
        return Registered(boot_id="b1", seq=seq, devices=devices)

    node = life(with_devices(1, Device(id="g0"), Device(id="g1")))
    first = node.state.changed_at

    node.tell(with_devices(2, Device(id="g0"), Device(id="g1", healthy=False, reason="xid 79")))

    assert [device.since for device in node.state.devices] == [first, node.state.changed_at]


def test_a_retired_node_has_no_capacity_and_its_bands_end() -> None:
    node = life(reported(cpu={"total": 4}), Retired())

    assert capacity(node.state) == ()
    assert node.tables.capacity_history[-1][2:9] == ("absent", None, None, None, None, None, None)
    assert latest_capacity(node.tables.capacity_history) == {(node.state.node_id, "cpu"): None}


def test_only_what_changed_begins_a_band() -> None:
    node = life(reported(cpu={"total": 4}, memory={"total": 8}))

    node.tell(reported(2, cpu={"total": 6}, memory={"total": 8}))

    assert [band.resource for band in node.tables.capacity_history] == ["cpu", "memory", "cpu"]
    assert set(json.loads(node.tables.announcements[-1].after)) == {"cpu"}


EXACT = Context(prec=100)
_amount = st.decimals(-(10**27), 10**27, places=PLACES)


@given(_amount, st.none() | _amount, st.none() | _amount, _amount)
def test_no_amount_is_too_big_for_the_arithmetic(
    total: Decimal, reserved: Decimal | None, ratio: Decimal | None, allocated: Decimal
) -> None:
    node = life(
        reported(x={"total": total, "reserved": reserved, "ratio": ratio}),
        Allocated(workload="w", amounts={"x": allocated}),
    )

    x = of(node)["x"]

    assert x.allocatable is not None
    assert x.free is not None
    assert 0 <= x.allocatable <= MOST
    assert x.allocatable == EXACT.to_integral_value(x.allocatable)
    assert EXACT.add(x.free, x.allocated) == x.allocatable


def test_what_leaves_the_range_of_amounts_is_cut_and_flagged() -> None:
    node = life(
        reported(x={"total": 10**27, "ratio": 10**20}),
        *[Allocated(workload=f"w{n}", amounts={"x": MOST, "y": -MOST}) for n in range(3)],
    )

    x, y = of(node)["x"], of(node)["y"]

    assert (x.allocatable, x.allocated, x.free, x.flags) == (MOST, MOST, 0, ("out_of_range",))
    assert y.allocated == -MOST
    assert node.derived.conditions == ("negative_allocation", "out_of_range")
