"""A node's state as bytes: how a fleet fits in memory and in one column (floor 2, pure).

A positional JSON list with a format number first, most nodes' fields before the rare ones, which are left out
together. A time that equals the one it usually equals is 0. `TABLES_VERSION` has to rise with `FORMAT`.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import orjson

from projections.parts import (
    AgentInfo,
    Allocation,
    Claim,
    Declared,
    DeclaredResource,
    Device,
    Flips,
    Hold,
    Leaving,
    Reported,
    Retirement,
    Verdict,
)

FORMAT = 3
MEMO = 4096
# Machines come in types: so many different resources are read and written once, and shared.

_DATE = orjson.OPT_UTC_Z
_NOTHING_RARE = ((), (), (), (), None, (), (), None, (), (), None, None, (), None, 0, 0, 0, 0)


def pack_fields(fields: tuple[Any, ...]) -> bytes:
    """Return the fields of a `NodeState`, in its order, as bytes."""
    (
        node_id, version, changed_at,
        agent_seq, incarnation, boot_id, machine_id, previous_boots, previous_seqs, conflict, claims, leaving,
        first_registered_at, registered_at, boot_at, inventory_at, inventory_seq,
        hostname, display_name, addresses, region, zone, pool, role, architecture, agent, interval_s, labels,
        resources, devices, gates, dialect, warnings,
        holds, retirement, declared, allocations, verdict, flips,
        duplicates, reordered, identical, zombies,
    ) = fields  # fmt: skip
    rare = (
        previous_boots, previous_seqs, conflict, claims, leaving, devices, gates, dialect, warnings,
        holds, retirement, declared, allocations, flips, duplicates, reordered, identical, zombies,
    )  # fmt: skip
    return orjson.dumps(
        (
            FORMAT, node_id, version, changed_at, incarnation, boot_id, agent_seq, machine_id,
            registered_at,
            0 if first_registered_at == registered_at else first_registered_at,
            0 if boot_at == registered_at else boot_at,
            0 if inventory_at == boot_at else inventory_at,
            inventory_seq,
            hostname, display_name, addresses, region, zone, pool, role, architecture,
            0 if agent is None else tuple(agent),
            interval_s, labels,
            {name: _pack_reported(reported) for name, reported in resources.items()} if resources else 0,
            0 if verdict is None else (
                verdict.word,
                0 if verdict.boot_id == boot_id else verdict.boot_id,
                0 if verdict.at == changed_at else verdict.at,
                0 if verdict.seq == version else verdict.seq,
            ),
            0 if rare == _NOTHING_RARE else _pack_rare(rare),
        ),
        option=_DATE,
    )  # fmt: skip


def unpack_fields(packed: bytes) -> tuple[Any, ...]:
    """Return the fields that were packed, equal to what they were."""
    (
        found, node_id, version, changed, incarnation, boot_id, agent_seq, machine_id,
        registered, first, boot, inventory, inventory_seq,
        hostname, display_name, addresses, region, zone, pool, role, architecture, agent, interval_s, labels,
        resources, verdict, rare,
    ) = orjson.loads(packed)  # fmt: skip
    assert found == FORMAT, (
        f"a packed state has format {found}, this code writes {FORMAT}: rebuild the tables"
    )
    changed_at = datetime.fromisoformat(changed)
    registered_at = _time(registered)
    boot_at = registered_at if boot == 0 else _time(boot)
    (
        previous_boots, previous_seqs, conflict, claims, leaving, devices, gates, dialect, warnings,
        holds, retirement, declared, allocations, flips, duplicates, reordered, identical, zombies,
    ) = _NOTHING_RARE if rare == 0 else _unpack_rare(rare)  # fmt: skip
    if verdict:
        word, about, at, seq = verdict
        verdict = Verdict(
            word,
            boot_id if about == 0 else about,
            changed_at if at == 0 else datetime.fromisoformat(at),
            version if seq == 0 else seq,
        )
    return (
        node_id, version, changed_at,
        agent_seq, incarnation, boot_id, machine_id, previous_boots, previous_seqs, conflict, claims, leaving,
        registered_at if first == 0 else _time(first), registered_at, boot_at,
        boot_at if inventory == 0 else _time(inventory), inventory_seq,
        hostname, display_name, tuple(addresses), region, zone, pool, role, architecture,
        AgentInfo(*agent) if agent else None, interval_s, labels,
        {name: _unpack_reported(reported) for name, reported in resources.items()} if resources else {},
        devices, gates, dialect, warnings,
        holds, retirement, declared, allocations, verdict or None, flips,
        duplicates, reordered, identical, zombies,
    )  # fmt: skip


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _text(amount: Decimal | None) -> str | None:
    return None if amount is None else str(amount)


def _amount(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


@lru_cache(MEMO)
def _pack_reported(reported: Reported) -> object:
    total, reserved, ratio, source, last_known = reported
    if reserved is None and ratio is None and source is None and last_known is None:
        return None if total is None else str(total)
    if source is None and last_known is None:
        return (_text(total), _text(reserved), _text(ratio))
    return (_text(total), _text(reserved), _text(ratio), source, _text(last_known))


def _unpack_reported(packed: str | list[str | None] | None) -> Reported:
    if packed is None:
        return Reported(None)
    if isinstance(packed, str):
        return _reported(packed)
    return _reported(*packed)


@lru_cache(MEMO)
def _reported(
    total: str | None,
    reserved: str | None = None,
    ratio: str | None = None,
    source: str | None = None,
    last_known: str | None = None,
) -> Reported:
    return Reported(_amount(total), _amount(reserved), _amount(ratio), source, _amount(last_known))


def _pack_rare(rare: tuple[Any, ...]) -> tuple[Any, ...]:
    boots, seqs, conflict, claims, leaving, devices, gates, dialect, warnings, *rest = rare
    holds, retirement, declared, allocations, flips, *counters = rest
    return (
        boots, seqs, conflict, [tuple(claim) for claim in claims],
        leaving and tuple(leaving),
        [(*device[:3], _text(device.memory), *device[4:]) for device in devices],
        gates, dialect, warnings,
        [tuple(hold) for hold in holds],
        retirement and tuple(retirement),
        declared and _pack_declared(declared),
        [
            (workload, {name: str(amount) for name, amount in amounts.items()}, since, incarnation)
            for workload, amounts, since, incarnation in allocations
        ],
        flips and tuple(flips),
        *counters,
    )  # fmt: skip


def _pack_declared(declared: Declared) -> tuple[Any, ...]:
    resources = {name: tuple(map(_text, numbers)) for name, numbers in declared.resources.items()}
    return (*declared[:-1], resources)


def _unpack_rare(packed: list[Any]) -> tuple[Any, ...]:
    boots, seqs, conflict, claims, leaving, devices, gates, dialect, warnings, *rest = packed
    holds, retirement, declared, allocations, flips, *counters = rest
    return (
        tuple(boots), tuple(seqs), tuple(conflict), tuple([Claim(*claim) for claim in claims]),
        leaving and Leaving(leaving[0], _time(leaving[1]), datetime.fromisoformat(leaving[2])),
        tuple(
            Device(device_id, kind, model, _amount(memory), healthy, reason, datetime.fromisoformat(since))
            for device_id, kind, model, memory, healthy, reason, since in devices
        ),
        tuple(gates), dialect, tuple(warnings),
        tuple(
            Hold(kind, owner, actor, why, datetime.fromisoformat(at), _time(until), sticky, incarnation)
            for kind, owner, actor, why, at, until, sticky, incarnation in holds
        ),
        retirement and _unpack_retirement(retirement),
        declared and _unpack_declared(declared),
        tuple(
            Allocation(
                workload,
                {name: Decimal(amount) for name, amount in amounts.items()},
                datetime.fromisoformat(since),
                incarnation,
            )
            for workload, amounts, since, incarnation in allocations
        ),
        flips and Flips(tuple([datetime.fromisoformat(at) for at in flips[0]]), flips[1], _time(flips[2])),
        *counters,
    )  # fmt: skip


def _unpack_retirement(packed: list[Any]) -> Retirement:
    incarnation, at, actor, reason, closed, restored_at, restored_seq = packed
    return Retirement(
        incarnation, datetime.fromisoformat(at), actor, reason, closed, _time(restored_at), restored_seq
    )


def _unpack_declared(packed: list[Any]) -> Declared:
    incarnation, labels, annotations, display_name, resources = packed
    return Declared(
        incarnation,
        labels,
        annotations,
        display_name,
        {name: DeclaredResource(*map(_amount, numbers)) for name, numbers in resources.items()},
    )
