"""Logs of facts about a few nodes, as hypothesis strategies: few ids, boots, workloads, so that facts meet.

`tests.support.facts` makes every value that a fact can have; here it is their order that matters.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from hypothesis import strategies as st

from events import facts
from events.codec import encode_fact, encode_json
from events.envelope import new_event
from events.facts import FactData
from events.ids import NodeId
from events.moments import to_us
from events.registry import REGISTRY
from events.subjects import fact_subject

NODES = (NodeId("n1"), NodeId("rack 2/n.2"))
MACHINES = {"b1": "m1", "b2": "m1", "b3": "m2", "b4": None}
"""Which machine a boot is of, where its agent tells the truth; None where it does not say."""

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Record(NamedTuple):
    """One record of FLEET as the broker stores it. `stored_at` need not rise with `seq`."""

    seq: int
    stored_at: datetime
    subject: str
    payload: bytes

    @property
    def stored_at_ns(self) -> int:
        return to_us(self.stored_at) * 1000


class Said(NamedTuple):
    """A payload about a node, before the log gives it a place."""

    subject: str
    payload: bytes


Log = list[Record]


def said(data: FactData, about: NodeId, *, is_bare: bool = False) -> Said:
    """Return a fact as its sender would publish it; only an agent may leave the envelope out."""
    kind = REGISTRY.by_model[type(data)]
    subject = fact_subject(kind.owner, about, kind.verb)
    if is_bare:
        return Said(subject, encode_json(data))
    event = new_event(data, about=about, source="/test", event_id=f"e-{kind.verb}", time=NOON)
    return Said(subject, encode_fact(event))


def placed(records: list[Said], *, every: int = 1, at: list[timedelta] | None = None) -> Log:
    """Return what was said as a log, at every so many sequences; a second apart, or at the given times."""
    times = at or [timedelta(seconds=n) for n in range(len(records))]
    return [
        Record(n * every, NOON + after, *one)
        for n, (one, after) in enumerate(zip(records, times, strict=True), start=1)
    ]


_amounts = st.sampled_from([Decimal(0), Decimal(2), Decimal("2.5"), Decimal(16), Decimal("0.0015")])
_maybe = st.none() | _amounts
_words = st.sampled_from(["x", "y"])
_boots = st.sampled_from(sorted(MACHINES))
_seqs = st.integers(0, 4)
_resources = st.dictionaries(
    st.sampled_from(["cpu", "memory", "gpu"]),
    st.builds(
        facts.Resource, total=_maybe, reserved=_maybe, ratio=_maybe, source=st.none() | st.just("error")
    ),
    max_size=2,
)
_devices = st.lists(
    st.builds(
        facts.Device, id=_words, kind=st.sampled_from(["gpu", "nic"]), healthy=st.none() | st.booleans()
    ),
    max_size=2,
    unique_by=lambda device: device.id,
).map(tuple)
_labels = st.dictionaries(st.sampled_from(["rack", "env"]), _words, max_size=2)
_dialects = st.sampled_from(
    [None, None, {"name": "fuse", "native_id": "7", "monitored": False, "extra": [1.5]}]
)


@st.composite
def _registered(draw: st.DrawFn, *, is_honest: bool) -> FactData:
    boot_id = draw(_boots)
    machines = st.just(MACHINES[boot_id])
    if not is_honest:
        machines = st.one_of(machines, machines, st.sampled_from(["m1", "m2", None]))
    return facts.Registered(
        boot_id=boot_id,
        seq=draw(_seqs),
        machine_id=draw(machines),
        hostname=draw(st.none() | _words),
        addresses=draw(st.lists(_words, max_size=1).map(tuple)),
        zone=draw(st.none() | _words),
        pool=draw(st.none() | _words),
        labels=draw(_labels),
        resources=draw(_resources),
        devices=draw(_devices),
        gates=draw(st.sampled_from([(), (), ("driver",)])),
        dialect=draw(_dialects),
    )


def _leaving() -> st.SearchStrategy[FactData]:
    return st.builds(facts.Leaving, boot_id=_boots, seq=_seqs, cause=st.none() | st.just("reboot"))


_who = {"actor": st.sampled_from(["", "ada"]), "reason": st.sampled_from(["", "disk"])}
_hold = {**_who, "owner": _words, "until": st.sampled_from([None, NOON]), "sticky": st.booleans()}
_release = {**_who, "owner": st.none() | _words}
_changes = st.dictionaries(st.sampled_from(["rack", "env"]), st.none() | _words, max_size=2)
_declared = st.dictionaries(
    st.sampled_from(["cpu", "vm"]),
    st.none() | st.builds(facts.DeclaredResource, total=_maybe, reserved=_maybe, ratio=_maybe),
    max_size=2,
)
_about = st.sampled_from(["", *sorted(MACHINES)])

operator_facts: st.SearchStrategy[FactData] = st.one_of(
    *[st.builds(held, **_hold) for held in (facts.Cordoned, facts.Drained, facts.MaintenanceEntered)],
    *[st.builds(ended, **_release) for ended in (facts.Uncordoned, facts.Undrained, facts.MaintenanceLeft)],
    st.builds(facts.Retired, **_who),
    st.builds(facts.Restored, **_who),
    st.builds(facts.LabelsSet, **_who, labels=_changes),
    st.builds(facts.AnnotationsSet, **_who, annotations=_changes),
    st.builds(facts.DisplayNameSet, **_who, display_name=st.none() | _words),
    st.builds(facts.CapacityDeclared, **_who, resources=_declared),
)
platform_facts: st.SearchStrategy[FactData] = st.one_of(
    st.builds(
        facts.Allocated,
        **_who,
        workload=_words,
        amounts=st.dictionaries(st.sampled_from(["cpu", "vm"]), _amounts, max_size=2),
    ),
    st.builds(facts.Released, **_who, workload=_words),
)
liveness_facts: st.SearchStrategy[FactData] = st.one_of(
    st.builds(facts.Alive, boot_id=_about),
    st.builds(facts.Lost, boot_id=_about, silent_s=st.just(31.5), grace_s=st.just(30.0)),
    st.builds(facts.Settled, last_flip_seq=st.integers(1, 16), quiet_s=st.just(300.0)),
)


def agent_facts(*, is_honest: bool = False) -> st.SearchStrategy[FactData]:
    """Return reports; in honest ones a boot is always of the same machine."""
    registered = _registered(is_honest=is_honest)
    return st.one_of(registered, registered, registered, _leaving())


@st.composite
def sayings(draw: st.DrawFn, *, nodes: tuple[NodeId, ...] = NODES, is_honest: bool = False) -> Said:
    """Return something said about one of the nodes: a fact, now and then one that nobody understands."""
    about = draw(st.sampled_from(nodes))
    odd = draw(st.integers(0, 19))
    if odd == 0:
        return Said(fact_subject("agent", about, "registered"), b'{"boot_id":7}')
    if odd == 1:
        return Said(fact_subject("operator", about, "knighted"), _knighted(about))
    data = draw(st.one_of(agent_facts(is_honest=is_honest), operator_facts, platform_facts, liveness_facts))
    is_bare = REGISTRY.by_model[type(data)].owner == "agent" and draw(st.booleans())
    return said(data, about, is_bare=is_bare)


def _knighted(about: NodeId) -> bytes:
    """Return an event of a type that a later version may know."""
    return encode_json(
        {
            "specversion": "1.0",
            "id": "e-knighted",
            "source": "/test",
            "type": "fleetfold.operator.knighted.v1",
            "subject": about,
            "data": {"title": "Sir"},
        }
    )


@st.composite
def fact_logs(
    draw: st.DrawFn,
    *,
    nodes: tuple[NodeId, ...] = NODES,
    is_honest: bool = False,
    every: int = 1,
    max_size: int = 16,
) -> Log:
    """Return a log whose broker's clock mostly goes on, and now and then steps back."""
    records = draw(st.lists(sayings(nodes=nodes, is_honest=is_honest), max_size=max_size))
    steps = draw(st.lists(st.sampled_from([0, 1, 1, 1, 7, -5]), min_size=len(records), max_size=len(records)))
    at, times = timedelta(0), []
    for step in steps:
        at += timedelta(seconds=step)
        times.append(at)
    return placed(records, every=every, at=times)
