"""What subscribers are told: the difference that a fact made, as announcements (floor 2, pure).

A function of the states before and after and of the fact, to the byte: so a rebuild finds the same ones.
`<kind>.<detail>` ends the subject in CHANGES:

    identity.registered|rebooted|replaced|conflict   who the node is
    lifecycle.retired|restored                       its tombstone
    state.<word>                                     the one word changed, or the liveness behind it
    state.flapping|settled                           it flips too often to be told each time, or no more
    schedulable.changed                              the word stayed, whether work may come did not
    intent.changed                                   holds came or went
    location.changed, address.changed, labels.changed
    labels.overridden                                a declared label wins over another value that is reported
    capacity.changed                                 numbers of some resources, those named only
    capacity.deficit                                 more is allocated than is allocatable, said once
    condition.raised|cleared                         conditions that the node's own facts make began or ended

While a node flaps (`projections.flapping`), what verdicts and reports make of its state is *damped*: told in
its history and to nobody else. What people decide is announced all the same.

A first registration tells who and what the node is and what it can hold, not its labels and addresses.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from events.codec import Recorded
from events.facts import Alive, Decision, Leaving, Lost, Registered
from projections.capacity import ResourceCapacity, capacity
from projections.derive import FLAPPING, UNREGISTERED, Derived, derive
from projections.parts import Hold, made
from projections.rows import AnnouncementRow
from projections.state import NodeState

MEMO = 4096
# How many texts are kept that many nodes share: words for a state, numbers of a machine type.

NOTHING = "null"

_FLIPPING = frozenset({"agent", "liveness"})
_DAMPED = frozenset({"state", "schedulable"})
_TOLD = frozenset({"flapping", "settled"})
# Whose facts make a flapping node flip, what of them is damped then, and what of that is told all the same.
_SAID_OTHERWISE = frozenset({FLAPPING, UNREGISTERED})
# Conditions that begin and end with announcements of their own: state.flapping, identity.registered.
Found = list[tuple[str, str, str, str]]
"""Kind, detail, and before and after as JSON texts."""


class Seen(NamedTuple):
    """A state with what follows from it; `resources` is its capacity."""

    state: NodeState
    derived: Derived
    resources: tuple[ResourceCapacity, ...]


def seen(state: NodeState) -> Seen:
    """Return the state with what follows from it."""
    resources = capacity(state)
    return Seen(state, derive(state, resources), resources)


def announced(before: Seen | None, after: Seen, fact: Recorded) -> tuple[AnnouncementRow, ...]:
    """Return what to announce of a fact that led from one state to the next; often nothing."""
    found: Found = []
    state = after.state
    if before is None:
        had: tuple[ResourceCapacity, ...] = ()
        _appeared(found, after)
    else:
        had = before.resources
        old = before.state
        if old.boot_id != state.boot_id or old.conflict is not state.conflict:
            _identity(found, old, state)
        _standing(found, before, after)
        if old.inventory_seq != state.inventory_seq and old.registered_at is not None:
            _places(found, old, state)
        if old.labels != state.labels or old.declared is not state.declared:
            _labels(found, old, state)
    has = after.resources
    if had is not has and had != has:
        _capacity(found, had, has)
    if before is None or before.derived.conditions != after.derived.conditions:
        _conditions(found, () if before is None else before.derived.conditions, after.derived.conditions)
    if not found:
        return ()
    is_damped = state.flapping_since is not None and fact.owner in _FLIPPING
    at, node_id, seq = state.changed_at, state.node_id, fact.seq
    actor, reason = said_by(fact)
    return tuple(
        [
            made(
                AnnouncementRow,
                (
                    seq, n, at, node_id, kind, detail, was, now, actor, reason,
                    is_damped and kind in _DAMPED and detail not in _TOLD,
                ),
            )
            for n, (kind, detail, was, now) in enumerate(found)
        ]
    )  # fmt: skip


def said_by(fact: Recorded) -> tuple[str, str]:
    """Return who made the change and why: what the fact says, else its owner and what can be said of it."""
    owner, data = fact.owner, fact.data
    kind = type(data)
    if kind is Registered or kind is Alive:
        return owner, ""
    match data:
        case Decision():
            return data.actor or owner, data.reason
        case Lost():
            return owner, f"silent for {data.silent_s:g} s, allowed are {data.grace_s:g} s"
        case Leaving():
            return owner, data.cause or ""
    return owner, ""


def _appeared(found: Found, after: Seen) -> None:
    state, derived = after.state, after.derived
    if state.registered_at is not None:
        found.append(("identity", "registered", NOTHING, _boot(state)))
    if state.retirement is not None:
        found.append(("lifecycle", "retired", NOTHING, _lifecycle(state)))
    found.append(("state", derived.state, NOTHING, _word(derived)))
    if state.holds:
        found.append(("intent", "changed", NOTHING, _intent(state, derived)))
    if state.declared is not None and state.declared.labels:
        found.append(("labels", "changed", NOTHING, _json(state.declared.labels)))


def _identity(found: Found, old: NodeState, new: NodeState) -> None:
    if new.boot_id != old.boot_id:
        was = NOTHING if old.registered_at is None else _boot(old)
        if new.incarnation != old.incarnation:
            detail = "replaced"
        else:
            detail = "registered" if old.registered_at is None else "rebooted"
        found.append(("identity", detail, was, _boot(new)))
    if len(new.conflict) > len(old.conflict):
        found.append(("identity", "conflict", _json({"boots": old.conflict}), _json({"boots": new.conflict})))


def _standing(found: Found, before: Seen, after: Seen) -> None:
    old, was = before.state, before.derived
    new, now = after.state, after.derived
    if old.flips is not new.flips:
        _flapping(found, before, after)
    if old.lifecycle != new.lifecycle:
        detail = "restored" if new.lifecycle == "active" else "retired"
        found.append(("lifecycle", detail, _lifecycle(old), _lifecycle(new)))
    if was is not now:
        if now.state != was.state or now.liveness != was.liveness:
            found.append(("state", now.state, _word(was), _word(now)))
        elif now.schedulable != was.schedulable:
            found.append(("schedulable", "changed", _word(was), _word(now)))
    if old.holds is not new.holds or (new.holds and old.incarnation != new.incarnation):
        had, has = _intent(old, was), _intent(new, now)
        if had != has:
            found.append(("intent", "changed", had, has))


def _flapping(found: Found, before: Seen, after: Seen) -> None:
    """Say that it begins, with the state it has then; or that it is over, with the state it had till then."""
    old, new = before.state.flapping_since, after.state.flapping_since
    if old is None and new is not None:
        now = after.derived
        found.append(("state", "flapping", _steady(before.derived), _unsteady(now, new)))
    elif old is not None and new is None:
        was = before.derived
        found.append(("state", "settled", _unsteady(was, old), _steady(was)))


def _places(found: Found, old: NodeState, new: NodeState) -> None:
    if (old.region, old.zone, old.pool) != (new.region, new.zone, new.pool):
        found.append(("location", "changed", _location(old), _location(new)))
    if old.addresses != new.addresses:
        was, now = _json({"addresses": old.addresses}), _json({"addresses": new.addresses})
        found.append(("address", "changed", was, now))


def _labels(found: Found, old: NodeState, new: NodeState) -> None:
    had, has = old.effective_labels, new.effective_labels
    if had != has and (old.registered_at is not None or new.registered_at is None):
        gone = {key: value for key, value in had.items() if has.get(key) != value}
        come = {key: value for key, value in has.items() if had.get(key) != value}
        found.append(("labels", "changed", _json(gone), _json(come)))
    known = _overridden(old)
    overridden = {key: values for key, values in _overridden(new).items() if known.get(key) != values}
    if overridden:
        found.append(("labels", "overridden", NOTHING, _json(overridden)))


def _overridden(state: NodeState) -> dict[str, dict[str, str]]:
    declared, reported = state.standing_declared, state.labels
    return {
        key: {"declared": value, "reported": reported[key]}
        for key, value in (declared.labels if declared is not None else {}).items()
        if reported.get(key, value) != value
    }


def _capacity(found: Found, old: tuple[ResourceCapacity, ...], new: tuple[ResourceCapacity, ...]) -> None:
    if not old:
        found.append(("capacity", "changed", NOTHING, _all(new)))
        short = [one.resource for one in new if _is_short(one)]
        had: dict[str, ResourceCapacity] = {}
        has = {one.resource: one for one in new} if short else {}
    else:
        had = {one.resource: one for one in old}
        has = {one.resource: one for one in new}
        names = sorted([name for name in {**had, **has} if had.get(name) != has.get(name)])
        found.append(("capacity", "changed", _listed(names, had), _listed(names, has)))
        short = [name for name in names if _is_short(has.get(name)) and not _is_short(had.get(name))]
    if short:
        found.append(("capacity", "deficit", _listed(short, had), _listed(short, has)))


def _conditions(found: Found, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    raised = [one for one in new if one not in old and one not in _SAID_OTHERWISE]
    cleared = [one for one in old if one not in new and one not in _SAID_OTHERWISE]
    if raised:
        found.append(("condition", "raised", NOTHING, _json({"conditions": raised})))
    if cleared:
        found.append(("condition", "cleared", _json({"conditions": cleared}), NOTHING))


def _is_short(one: ResourceCapacity | None) -> bool:
    return one is not None and one.free is not None and one.free < 0


def _listed(names: list[str], resources: dict[str, ResourceCapacity]) -> str:
    listed = ",".join([f"{_name(name)}:{_numbers(resources.get(name))}" for name in names])
    return f"{{{listed}}}"


@lru_cache(MEMO)
def _all(resources: tuple[ResourceCapacity, ...]) -> str:
    return _listed([one.resource for one in resources], {one.resource: one for one in resources})


@lru_cache(MEMO)
def _numbers(one: ResourceCapacity | None) -> str:
    if one is None:
        return NOTHING
    members: dict[str, Any] = {
        "status": one.status,
        **{
            name: None if (amount := getattr(one, name)) is None else orjson.Fragment(f"{amount:f}")
            for name in ("total", "reserved", "ratio", "allocatable", "allocated", "free")
        },
    }
    if one.flags:
        members["flags"] = one.flags
    if one.source is not None:
        members["source"] = one.source
    if one.last_known is not None:
        members["total_last_known"] = orjson.Fragment(f"{one.last_known:f}")
    return _json(members)


@lru_cache(MEMO)
def _name(resource: str) -> str:
    return orjson.dumps(resource).decode()


@lru_cache(MEMO)
def _word(derived: Derived) -> str:
    return _json(
        {
            "state": derived.state,
            "liveness": derived.liveness,
            "schedulable": derived.schedulable,
            "reasons": derived.reasons,
        }
    )


def _unsteady(derived: Derived, since: datetime) -> str:
    return f'{_word(derived)[:-1]},"flapping_since":{orjson.dumps(since, option=orjson.OPT_UTC_Z).decode()}}}'


def _steady(derived: Derived) -> str:
    return f'{_word(derived)[:-1]},"flapping_since":null}}'


def _boot(state: NodeState) -> str:
    return _json({"boot_id": state.boot_id, "incarnation": state.incarnation, "machine_id": state.machine_id})


def _lifecycle(state: NodeState) -> str:
    return _json({"lifecycle": state.lifecycle})


def _intent(state: NodeState, derived: Derived) -> str:
    return _json({"intent": derived.intent, "holds": [_hold(hold) for hold in state.standing_holds]})


def _hold(hold: Hold) -> dict[str, Any]:
    return {name: getattr(hold, name) for name in ("kind", "owner", "actor", "reason", "until", "sticky")}


def _location(state: NodeState) -> str:
    return _json({"region": state.region, "zone": state.zone, "pool": state.pool})


def _json(members: dict[str, Any]) -> str:
    return orjson.dumps(members, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z).decode()
