"""What a dialect's registration is in the log (floor 3, pure): one `registered` fact, where it says news.

Dialects know no boots and no sequences. For them a boot is one stay of a record: it begins with the first
registration, and anew after the node was retired (another incarnation), or where its dialect registers at the
start of an agent and the node was lost. Its name is `<dialect>-<n>`, its sequence counts the registrations in
it. Both follow from the state that the fact is appended to, so two gateways say the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from events.body import read_object
from events.codec import encode_json
from events.digest import inventory_digest
from events.facts import Device, FactData, Registered, Resource
from projections.state import NodeState

DIGEST = "digest"
ATTRIBUTES = "attributes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a node says of itself, in our words; `attributes` is what only its dialect knows, as JSON.

    The attributes come back in the dialect's own answers. `None` is not reported. `machine_id` is what tells
    machines that speak for one node apart, where the dialect can.
    """

    native_id: str
    attributes: Mapping[str, Any]
    machine_id: str | None = None
    hostname: str | None = None
    display_name: str | None = None
    addresses: Sequence[str] = ()
    region: str | None = None
    zone: str | None = None
    pool: str | None = None
    role: str | None = None
    architecture: str | None = None
    agent: Mapping[str, str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Resource] = field(default_factory=dict)
    devices: Sequence[Device] = ()


def registration(
    state: NodeState | None,
    report: Report,
    *,
    dialect: str,
    interval_s: float | None,
    begins_anew: bool = False,
    begins_anew_when_lost: bool = False,
) -> list[FactData]:
    """Return the fact to append to a node as it is; none where it already says the same.

    `interval_s` is how often it beats, None for a dialect without heartbeats: its nodes are `unmonitored`.
    `begins_anew` says that the machine is known to have booted.
    """
    told = _told(report, dialect=dialect, interval_s=interval_s)
    is_new = begins_anew or (begins_anew_when_lost and _is_lost(state))
    boot_id, seq = next_boot(state, dialect=dialect, is_new=is_new)
    if state is not None and seq > 1 and (state.dialect or {}).get(DIGEST) == told[1]:
        return []
    member = {**told[0].dialect, DIGEST: told[1]} if told[0].dialect is not None else None
    return [told[0].model_copy(update={"boot_id": boot_id, "seq": seq, "dialect": member})]


def next_boot(state: NodeState | None, *, dialect: str, is_new: bool) -> tuple[str, int]:
    """Return the boot and the sequence of the next registration of a node as it is."""
    if state is None:
        return f"{dialect}-1", 1
    number = re.compile(rf"{re.escape(dialect)}-(\d{{1,9}})")
    boots = [state.boot_id or "", *state.previous_boots]
    counted = [int(found[1]) for boot in boots if (found := number.fullmatch(boot))]
    is_ours = bool(state.boot_id and number.fullmatch(state.boot_id))
    if is_ours and state.retired_at is None and not is_new:
        assert state.boot_id is not None, "it fits our names"
        return state.boot_id, state.agent_seq + 1
    return f"{dialect}-{max(counted, default=0) + 1}", 1


def attributes(state: NodeState) -> dict[str, Any]:
    """Return what the node's dialect knows of it besides our words."""
    known = (state.dialect or {}).get(ATTRIBUTES)
    return known if isinstance(known, dict) else {}


def is_of(state: NodeState | None, dialect: str) -> bool:
    """Say whether a node is there for a dialect: registered through it, and not retired."""
    return (
        state is not None
        and state.registered_at is not None
        and state.retired_at is None
        and (state.dialect or {}).get("name") == dialect
    )


def _is_lost(state: NodeState | None) -> bool:
    return state is not None and state.liveness == "lost"


def _told(report: Report, *, dialect: str, interval_s: float | None) -> tuple[Registered, str]:
    """Return the data of the fact, with no boot yet, and the digest of what it says."""
    member: dict[str, Any] = {
        "name": dialect,
        "native_id": report.native_id,
        "monitored": interval_s is not None,
        ATTRIBUTES: dict(report.attributes),
    }
    data = Registered.model_validate(
        {
            "boot_id": "-",
            "seq": 0,
            "machine_id": report.machine_id,
            "hostname": report.hostname,
            "display_name": report.display_name,
            "addresses": tuple(report.addresses),
            "region": report.region,
            "zone": report.zone,
            "pool": report.pool,
            "role": report.role,
            "architecture": report.architecture,
            "agent": report.agent,
            "interval_s": interval_s,
            "labels": dict(report.labels),
            "resources": dict(report.resources),
            "devices": tuple(report.devices),
            "dialect": member,
        }
    )
    return data, inventory_digest(read_object(encode_json(data))[0])
