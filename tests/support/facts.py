"""Every fact there can be, as hypothesis strategies, within what `events.treatments` leaves alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from events import facts
from events.amounts import PLACES
from events.envelope import FactEvent, new_event
from events.facts import FactData, Part
from events.ids import NodeId
from events.registry import REGISTRY

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = texts.filter(bool)
places = texts.map(lambda text: unicodedata.normalize("NFC", text) or None)
node_ids = names.map(lambda text: NodeId(unicodedata.normalize("NFC", text)))
times = st.datetimes(timezones=st.just(UTC))
counts = st.integers(0, 2**63 - 1)
amounts = st.one_of(
    st.integers(0, 10**28 - 1).map(Decimal),
    st.decimals(0, 10**18, places=PLACES),
    st.decimals(0, 1000, places=2),
)
integers = st.integers(-(2**70), 2**70)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def _optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def _part(draw: st.DrawFn, model: type[Part], members: dict[str, st.SearchStrategy[Any]]) -> Any:  # noqa: ANN401
    """One value of a model, with members of names that it does not know."""
    known = {name: draw(strategy) for name, strategy in members.items()}
    others = draw(st.dictionaries(names.map(lambda name: f"x_{name}"), json_values, max_size=2))
    return model(**known, **others)


def _resource(model: type[Part]) -> st.SearchStrategy[Any]:
    numbers = {name: _optional(amounts) for name in ("total", "reserved", "ratio")}
    return _part(model, numbers)


_boot = {"boot_id": names, "seq": counts, "sent_at": _optional(times)}
_decision = {"actor": texts, "reason": texts, "request_id": texts}
_hold = {**_decision, "owner": names, "until": _optional(times), "sticky": st.booleans()}
_release = {**_decision, "owner": _optional(names)}
_seconds = st.floats(0, 10**9)
_heard = {
    "boot_id": texts,
    "last_heartbeat_at": _optional(times),
    "beat_seq": _optional(counts),
    "rule": texts,
}
_agent = _part(facts.AgentInfo, {"name": _optional(texts), "version": _optional(texts)})
_device = _part(
    facts.Device,
    {
        "id": names,
        "kind": _optional(texts),
        "model": _optional(texts),
        "memory": _optional(amounts),
        "healthy": _optional(st.booleans()),
        "reason": _optional(texts),
    },
)
_labels = st.dictionaries(texts.filter(lambda key: not key.startswith("fleetfold/")), texts, max_size=3)
_changes = st.dictionaries(texts, _optional(texts), max_size=3)

MEMBERS: dict[type[FactData], dict[str, st.SearchStrategy[Any]]] = {
    facts.Registered: {
        **_boot,
        **dict.fromkeys(("machine_id", "hostname", "display_name", "role", "architecture"), _optional(texts)),
        **dict.fromkeys(("region", "zone", "pool"), places),
        "addresses": st.lists(texts, max_size=2).map(tuple),
        "agent": _optional(_agent),
        "interval_s": _optional(st.floats(0.001, 10**6)),
        "labels": _labels,
        "resources": st.dictionaries(texts, _resource(facts.Resource), max_size=3),
        "devices": st.lists(_device, max_size=2).map(tuple),
        "gates": st.lists(texts, max_size=2).map(tuple),
        "dialect": _optional(st.dictionaries(texts, json_values, max_size=3)),
    },
    facts.Leaving: {**_boot, "cause": _optional(texts), "expect_back_at": _optional(times)},
    facts.Cordoned: _hold,
    facts.Uncordoned: _release,
    facts.Drained: _hold,
    facts.Undrained: _release,
    facts.MaintenanceEntered: _hold,
    facts.MaintenanceLeft: _release,
    facts.Retired: {**_decision, "force": st.booleans()},
    facts.Restored: _decision,
    facts.LabelsSet: {**_decision, "labels": _changes},
    facts.AnnotationsSet: {**_decision, "annotations": _changes},
    facts.DisplayNameSet: {**_decision, "display_name": _optional(texts)},
    facts.CapacityDeclared: {
        **_decision,
        "resources": st.dictionaries(texts, _optional(_resource(facts.DeclaredResource)), max_size=3),
    },
    facts.Allocated: {
        **_decision,
        "workload": names,
        "amounts": st.dictionaries(texts, amounts, max_size=3),
    },
    facts.Released: {**_decision, "workload": names},
    facts.Alive: _heard,
    facts.Lost: {**_heard, "silent_s": _seconds, "grace_s": _seconds, "deadline_at": _optional(times)},
    facts.Settled: {
        "boot_id": texts,
        "last_flip_seq": counts,
        "quiet_s": _seconds,
        "rule": texts,
    },
    facts.ZoneSilent: {
        "count": counts,
        "members": counts,
        "rule": texts,
        "held_until": _optional(times),
    },
    facts.ZoneRecovered: {"count": _optional(counts), "members": _optional(counts), "rule": texts},
}
"""How to make each member of each fact. A test checks that neither a fact nor a member is forgotten."""


def data_of(model: type[FactData]) -> st.SearchStrategy[FactData]:
    """Return every value of one fact's data."""
    strategy: st.SearchStrategy[FactData] = _part(model, MEMBERS[model])
    return strategy


any_data = st.one_of([data_of(fact.model) for fact in REGISTRY.types])


def _event(data: FactData, about: NodeId, source: str, event_id: str, time: datetime) -> FactEvent:
    return new_event(data, about=about, source=source, event_id=event_id, time=time)


def _is_event_id(text: str) -> bool:
    return text.isprintable() and text == text.strip() != ""


build: Callable[..., FactEvent] = _event
any_event = st.builds(build, any_data, node_ids, names, texts.filter(_is_event_id), times)
