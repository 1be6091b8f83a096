"""Stratum's arithmetic, its kinds of labels and its power actions, without a broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.dialects import stratum_power as power
from api.dialects.reading import read_members
from api.dialects.stratum_capabilities import kind, read
from api.dialects.stratum_node import Said, is_late, measured, read_heartbeat
from api.dialects.stratum_reservation import committable, computed
from events.ids import node_id
from projections.capacity import ResourceCapacity
from projections.heartbeats import Heartbeat
from projections.parts import Declared, Verdict
from projections.state import NodeState

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
NODE = node_id("stratum:n1")
INTERVAL_S = 60.0


@pytest.mark.parametrize(
    ("total", "reserved", "ratio", "left"),
    [
        ("100", "0", "1.15", 115),
        ("10", "3", "1.5", 10),
        ("2", "4", "4", 0),
        ("64", None, None, 64),
        ("9223372036854775807", "1", "3.000000001", floor((2**63 - 2) * Fraction("3.000000001"))),
    ],
)
def test_what_can_be_committed_is_exact(
    total: str, reserved: str | None, ratio: str | None, left: int
) -> None:
    assert committable(_capacity(total, reserved, ratio)) == left


@given(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.decimals("0.000000001", 1000, places=9, allow_nan=False),
)
def test_what_can_be_committed_is_the_floor_of_the_product(total: int, reserved: int, ratio: Decimal) -> None:
    left = committable(_capacity(str(total), str(reserved), str(ratio)))

    assert left == floor(max(0, total - reserved) * Fraction(ratio))


@pytest.mark.parametrize(
    ("vcpus", "kept"), [(0, 2), (16, 2), (33, 2), (34, 3), (50, 3), (51, 4), (100, 6), (200, 12)]
)
def test_a_lone_node_keeps_six_per_cent_of_its_threads_rounded_up(vcpus: int, kept: int) -> None:
    assert computed(vcpus=vcpus, memory_bytes=0)["cpu"] == kept


@pytest.mark.parametrize(
    ("memory_bytes", "kept"),
    [(0, 6 * 2**30), (60 * 2**30, 6 * 2**30), (60 * 2**30 + 1, 6 * 2**30 + 1), (100 * 2**30, 10 * 2**30)],
)
def test_a_lone_node_keeps_a_tenth_of_its_memory(memory_bytes: int, kept: int) -> None:
    assert computed(vcpus=8, memory_bytes=memory_bytes)["memory"] == kept


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("capability.net.sriov_vfs", "countable"),
        ("capability.mem.hugepages_1g", "countable"),
        ("capability.gpu.nvidia-a100", "countable"),
        ("capability.accel.x", "countable"),
        ("capability.gpu.present", "boolean"),
        ("capability.mem.ecc", "boolean"),
        ("capability.gpu.", "descriptive"),
        ("capability.cpu.cores", "descriptive"),
        ("capability.cpu.threads", "descriptive"),
        ("capability.migration.transport", "descriptive"),
        ("team", "descriptive"),
    ],
)
def test_the_kind_of_a_key_is_declared(key: str, expected: str) -> None:
    assert kind(key) == expected


@pytest.mark.parametrize("value", ["", "-1", "+1", "1.0", "1e3", " 1", "1 ", "٣", "0x10", "9" * 19])
def test_what_is_no_whole_number_is_not_reported(value: str) -> None:
    kept, findings = read({"capability.net.sriov_vfs": value, "capability.cpu.cores": value})

    assert kept == {"capability.cpu.cores": value}
    assert len(findings) == 1


def test_a_reboot_is_proven_by_a_missed_beat_after_it_was_due() -> None:
    state = _asked("reboot")
    due = AT + power.DELAY

    assert power.booted(state, _beat(due - timedelta(seconds=91)), now=due, interval_s=INTERVAL_S) == {
        "generation": 1
    }
    assert _proof(state, last=due - timedelta(seconds=90), now=due) is None
    assert _proof(state, last=AT - timedelta(hours=1), now=due - timedelta(seconds=1)) is None
    assert power.booted(state, None, now=due + timedelta(hours=1), interval_s=INTERVAL_S) is None


def test_a_gap_proves_nothing_of_a_shutdown() -> None:
    assert _proof(_asked("shutdown"), last=AT, now=AT + timedelta(seconds=170)) is None


def test_a_host_that_goes_on_beating_has_failed() -> None:
    due = AT + power.DELAY + timedelta(seconds=15 * INTERVAL_S)
    for action, before in (("shutdown", "shutting-down"), ("reboot", "rebooting")):
        state = _asked(action)
        asked = power.asked_of(state)
        assert asked is not None

        assert power.word(state, asked, _beat(due), interval_s=INTERVAL_S) == before
        late = _beat(due + timedelta(seconds=1))
        assert power.word(state, asked, late, interval_s=INTERVAL_S) == "failed"
        assert power.booted(state, late, now=due + timedelta(hours=1), interval_s=INTERVAL_S) is None


def test_a_verdict_from_before_an_action_says_nothing_of_it() -> None:
    for seq, expected in ((5, "shutting-down"), (6, "off")):
        state = _asked("shutdown", version=5)._replace(verdict=Verdict("lost", "stratum-1", AT, seq))
        asked = power.asked_of(state)
        assert asked is not None

        assert power.word(state, asked, None, interval_s=INTERVAL_S) == expected


def test_a_failed_shutdown_that_goes_off_after_all_is_off() -> None:
    late = AT + timedelta(hours=1)
    state = _asked("shutdown")._replace(verdict=Verdict("lost", "stratum-1", late, 99))
    shown = power.shown(state, _beat(late), interval_s=INTERVAL_S)

    assert shown is not None
    assert (shown["state"], shown["offAt"]) == ("off", late)


def test_our_own_clock_makes_no_heartbeat_late() -> None:
    newest = _heartbeat(AT, now=AT)
    beat = _beat(AT)._replace(used={name: float(value or 0) for name, value in measured(newest).items()})

    stepped_back = _heartbeat(AT + timedelta(seconds=60), now=AT - timedelta(hours=1))
    undated = _heartbeat(None, now=AT - timedelta(hours=1))
    late = _heartbeat(AT - timedelta(microseconds=1), now=AT + timedelta(hours=1))

    assert [is_late(said, beat) for said in (stepped_back, undated, newest, late)] == [False] * 3 + [True]
    assert stepped_back.sampled_at == AT - timedelta(hours=1)


def _heartbeat(sampled_at: datetime | None, *, now: datetime) -> Said:
    dated = {} if sampled_at is None else {"sampledAt": sampled_at.isoformat()}
    body = {
        "hostname": "h", "role": "hybrid", "architecture": "amd64",
        "capacity": {"totalVCPUs": 1, "totalMemoryBytes": 1, **dated},
    }  # fmt: skip
    return read_heartbeat(read_members(json.dumps(body).encode()), now=now)


def _capacity(total: str, reserved: str | None, ratio: str | None) -> ResourceCapacity:
    numbers = [None if text is None else Decimal(text) for text in (total, reserved, ratio)]
    return ResourceCapacity("cpu", "reported", *numbers, None, Decimal(0), None)


def _asked(action: str, *, version: int = 5) -> NodeState:
    """Return a node of which an action was asked at AT, when it had this version."""
    state = NodeState(
        NODE, version, AT, boot_id="stratum-1", registered_at=AT, boot_at=AT, dialect={"name": "stratum"}
    )
    text = power.text_of(state, action, now=AT, is_last_control_plane=False)
    assert json.loads(text)["generation"] == 1
    return state._replace(version=version + 1, declared=Declared(1, {}, {power.ANNOTATION: text}, None, {}))


def _beat(at: datetime) -> Heartbeat:
    return Heartbeat(NODE, "stratum-1", at, 1, 1, 0, 0, 0, 0, None, None, None, (), {})


def _proof(state: NodeState, *, last: datetime, now: datetime) -> dict[str, Any] | None:
    return power.booted(state, _beat(last), now=now, interval_s=INTERVAL_S)
