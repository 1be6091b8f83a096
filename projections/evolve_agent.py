"""How an agent's reports fold (floor 2, pure). They write the agent's own fields and nothing else.

A node is (id, boot, seq). Within a boot only a higher seq counts; a boot never seen is a reboot of the same
machine or another machine under the same name; an earlier boot that goes on reporting is a second claimant.

While there is more than one claimant, the record stays with the boot that has it, and a boot never seen is
one claimant more. It takes the node over once the one that has it is lost, said goodbye or was retired, or
once it reported three times without a word of that one: whoever is there answers each time that it is asked.
"""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeVar
from zlib import crc32

import orjson

from events.codec import Recorded
from events.facts import Device as SaidDevice
from events.facts import Leaving as SaidGoodbye
from events.facts import Registered, Resource
from projections.effect import effective_at, unchanged
from projections.parts import AgentInfo, Claim, Device, Leaving, Reported, made
from projections.state import INVENTORY, LATEST_BOOTS, MOST_CLAIMS, PREVIOUS_BOOTS, NodeState

_T = TypeVar("_T")

_UNREACHABLE = "error"
# What `source` says where the agent could not ask whoever knows a total: then no number, not even 0, is one.

_TAIL = slice(INVENTORY.stop, None)
_EMPTY_TAIL = tuple([NodeState._field_defaults[name] for name in NodeState._fields[_TAIL]])
IDENTICAL = NodeState._fields.index("identical")
_NO_RESOURCES: dict[str, Reported] = {}
_TOLD = itemgetter(*[name for name in NodeState._fields[INVENTORY] if name != "warnings"])
CLAIMS = 3
# Of two that are both there, one may report twice in a row: last of one round of answers, first of the next.
LOST = "lost"
MEMO = 4096
# Machines come in types: what many report alike is one value, compared and packed as such.


def registered(  # noqa: PLR0911 (one line of the identity table each)
    state: NodeState | None, fact: Recorded, data: Registered
) -> NodeState:
    """Fold a registration: first, again, changed, after a reboot, of another machine or claimant."""
    if state is None:
        return _first(fact, data)
    boot_id, seq = data.boot_id, data.seq
    if boot_id == state.boot_id:
        if seq <= state.agent_seq:
            return _again(state, fact, seq == state.agent_seq)
        if state.retired_at is not None:
            return state._replace(version=fact.seq, zombies=state.zombies + 1)
        if data.machine_id and state.machine_id and data.machine_id != state.machine_id:
            return _claimed(state, fact, f"{boot_id}@{data.machine_id}")
        return _reported(state._replace(claims=()) if state.claims else state, fact, data)
    if boot_id in state.previous_boots:
        at = state.previous_boots.index(boot_id)
        last = state.previous_seqs[at]
        if seq <= last:
            return _again(state, fact, seq == last)
        state = state._replace(previous_seqs=(*state.previous_seqs[:at], seq, *state.previous_seqs[at + 1 :]))
        if state.retired_at is not None:
            return state._replace(version=fact.seq, zombies=state.zombies + 1)
        return _claimed(state, fact, boot_id)
    if state.conflict and state.retired_at is None and state.leaving is None and state.liveness != LOST:
        return _claiming(state, fact, data)
    return _booted(state, fact, data)


def leaving(state: NodeState | None, fact: Recorded, data: SaidGoodbye) -> NodeState | None:
    """Fold a goodbye of the present boot; one of any other boot changes nothing."""
    if state is None:
        return None
    if data.boot_id != state.boot_id or data.seq <= state.agent_seq:
        return _again(state, fact, data.boot_id == state.boot_id and data.seq == state.agent_seq)
    if state.retired_at is not None:
        return state._replace(version=fact.seq, zombies=state.zombies + 1)
    at = effective_at(state, fact)
    return state._replace(
        version=fact.seq,
        changed_at=at,
        agent_seq=data.seq,
        leaving=Leaving(data.cause, data.expect_back_at, at),
    )


def _again(state: NodeState, fact: Recorded, is_duplicate: bool) -> NodeState:
    if is_duplicate:
        return state._replace(version=fact.seq, duplicates=state.duplicates + 1)
    return state._replace(version=fact.seq, reordered=state.reordered + 1)


def _first(fact: Recorded, data: Registered) -> NodeState:
    at = fact.stored_at
    assert fact.node_id is not None, "a registration is about a node"
    return made(
        NodeState,
        (
            fact.node_id, fact.seq, at,
            data.seq, 1, data.boot_id, data.machine_id or None, (), (), (), (), None,
            at, at, at, at, fact.seq,
            *_inventory(data, fact, _NO_RESOURCES, (), at),
            *_EMPTY_TAIL,
        )
    )  # fmt: skip


def _reported(state: NodeState, fact: Recorded, data: Registered) -> NodeState:
    at = effective_at(state, fact)
    fields: tuple[Any, ...] = state
    known = fields[INVENTORY]
    inventory = _inventory(data, fact, state.resources, state.devices, at)
    machine_id = data.machine_id or state.machine_id
    is_same = inventory == known and machine_id == state.machine_id
    if is_same and state.leaving is None:
        identical = state.identical + 1
        return made(
            NodeState,
            (
                fields[0],
                fact.seq,
                state.changed_at,
                data.seq,
                *fields[4:IDENTICAL],
                identical,
                *fields[IDENTICAL + 1 :],
            ),
        )
    return made(
        NodeState,
        (
            state.node_id, fact.seq, at,
            data.seq, state.incarnation, state.boot_id, machine_id,
            state.previous_boots, state.previous_seqs, state.conflict, (), None,
            state.first_registered_at, state.registered_at, state.boot_at,
            *((state.inventory_at, state.inventory_seq) if is_same else (at, fact.seq)),
            *(known if is_same else inventory),
            *fields[_TAIL],
        )
    )  # fmt: skip


def _booted(state: NodeState, fact: Recorded, data: Registered) -> NodeState:
    at = effective_at(state, fact)
    is_replaced = state.retired_at is not None or bool(
        data.machine_id and state.machine_id and data.machine_id != state.machine_id
    )
    boots, seqs = state.previous_boots, state.previous_seqs
    if state.boot_id is not None:
        boots, seqs = (*boots, state.boot_id), (*seqs, state.agent_seq)
        if len(boots) > PREVIOUS_BOOTS:
            at_random = crc32(b"%d" % fact.seq) % (PREVIOUS_BOOTS + 1 - LATEST_BOOTS)
            boots, seqs = _without(boots, at_random), _without(seqs, at_random)
    known, devices = (_NO_RESOURCES, ()) if is_replaced else (state.resources, state.devices)
    fields: tuple[Any, ...] = state
    return made(
        NodeState,
        (
            state.node_id, fact.seq, at,
            data.seq, state.incarnation + is_replaced, data.boot_id,
            data.machine_id or (None if is_replaced else state.machine_id),
            boots, seqs, (), (), None,
            state.first_registered_at or at,
            at if is_replaced else state.registered_at or at,
            at, at, fact.seq,
            *_inventory(data, fact, known, devices, at),
            *fields[_TAIL],
        )
    )  # fmt: skip


def _claiming(state: NodeState, fact: Recorded, data: Registered) -> NodeState:
    """Fold a boot never seen that reports while another has the node."""
    known = next((claim for claim in state.claims if claim.boot_id == data.boot_id), None)
    if known is not None and data.seq <= known.seq:
        return _again(state, fact, data.seq == known.seq)
    claim = Claim(data.boot_id, data.seq, 1 if known is None else known.times + 1)
    if claim.times == CLAIMS:
        return _booted(state, fact, data)
    others = [other for other in state.claims if other is not known]
    claims = (*others, claim)[-MOST_CLAIMS:]
    return _claimed(state._replace(claims=claims), fact, data.boot_id)


def _claimed(state: NodeState, fact: Recorded, claimant: str) -> NodeState:
    """Fold a second claimant: it is named, the record stays with the one that has it."""
    assert state.boot_id is not None, "only a registered node can be claimed a second time"
    conflict = state.conflict or (state.boot_id,)
    if claimant in conflict or len(conflict) > MOST_CLAIMS:
        return unchanged(state, fact)
    at = effective_at(state, fact)
    return state._replace(version=fact.seq, changed_at=at, conflict=(*conflict, claimant))


def _without(values: tuple[_T, ...], at: int) -> tuple[_T, ...]:
    return (*values[:at], *values[at + 1 :])


def _inventory(
    data: Registered,
    fact: Recorded,
    known: dict[str, Reported],
    devices: tuple[Device, ...],
    at: datetime,
) -> tuple[Any, ...]:
    """Return the fields of `INVENTORY` in their order."""
    (
        hostname, display_name, addresses, region, zone, pool, role, architecture, agent, interval_s, labels,
        resources, listed, gates, dialect,
    ) = _TOLD(vars(data))  # fmt: skip
    return (
        hostname, display_name, addresses, region, zone, pool, role, architecture,
        None if agent is None else AgentInfo(agent.name, agent.version),
        None if interval_s is None else float(interval_s),
        labels,
        {name: _resource(resource, known.get(name)) for name, resource in resources.items()},
        _devices(listed, devices, at) if listed else (),
        gates,
        None if dialect is None else _plain(dialect),
        tuple([f"{warning.code}:{warning.field}" for warning in fact.warnings]) if fact.warnings else (),
    )  # fmt: skip


def _resource(said: Resource, known: Reported | None) -> Reported:
    total, source = said.total, said.source
    if total is not None and source != _UNREACHABLE:
        return _reported_as(total, said.reserved, said.ratio, source)
    last = None if known is None else known.last_known if known.total is None else known.total
    return Reported(None, said.reserved, said.ratio, source, last)


@lru_cache(MEMO)
def _reported_as(
    total: Decimal, reserved: Decimal | None, ratio: Decimal | None, source: str | None
) -> Reported:
    return Reported(total, reserved, ratio, source)


def _devices(listed: tuple[SaidDevice, ...], known: tuple[Device, ...], at: datetime) -> tuple[Device, ...]:
    since = {device[:-1]: device.since for device in known}
    return tuple(
        [
            Device(*said, since.get(said, at))
            for said in [
                (device.id, device.kind, device.model, device.memory, device.healthy, device.reason)
                for device in listed
            ]
        ]
    )


def _plain(dialect: dict[str, Any]) -> dict[str, Any]:
    """Return the dialect's member as it survives packing: long numbers become floats."""
    try:
        orjson.dumps(dialect)
    except TypeError:
        plain: dict[str, Any] = orjson.loads(json.dumps(dialect))
        return plain
    return dialect
