"""Malformed input, each with what the real codec makes of it: two generated tables of `docs/bad-input.md`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from docs.markdown import table
from events.codec import Recorded, decode_fact
from events.errors import UnreadableError
from events.facts import Allocated, Registered
from events.heartbeats import decode_beats
from events.log import Batch, Cursor

AT_NS = 1_767_225_600_000_000_000
N1 = "fleet.v1.agent.n1.registered"
Look = Callable[[Any], str]


@dataclass(frozen=True)
class Example:
    """One record: what is odd about it, its body (or how that is shown), and what of the result to see."""

    odd: str
    body: str | bytes
    subject: str = N1
    shown: str = ""
    look: Look | None = None

    @property
    def payload(self) -> bytes:
        """Return the body as bytes."""
        return self.body if isinstance(self.body, bytes) else self.body.encode()

    @property
    def text(self) -> str:
        """Return the body for a reader."""
        return self.shown or f"`{self.payload.decode()}`"


def registered(odd: str, rest: str, *, shown: str = "", look: Look | None = None) -> Example:
    """Return a registration with further members, of which only these are shown."""
    return Example(odd, f'{{"boot_id":"b1","seq":1,{rest}}}', shown=shown or f"`{rest}`", look=look)


def event(
    odd: str, *, subject: str = N1, without: str = "", look: Look | None = None, **members: str
) -> Example:
    """Return an envelope of a registration with some members replaced, of which only these are shown."""
    whole = {
        "specversion": '"1.0"',
        "id": '"e1"',
        "source": '"/agent"',
        "type": '"fleetfold.agent.registered.v1"',
        "data": '{"boot_id":"b1","seq":1}',
    } | {name.rstrip("_"): value for name, value in members.items()}
    body = ",".join(f'"{name}":{value}' for name, value in whole.items() if name != without)
    shown = ",".join(f'"{name.rstrip("_")}":{value}' for name, value in members.items())
    return Example(odd, f"{{{body}}}", subject, f"`{shown}`" if shown else f"no `{without}`", look)


def total(of: str) -> Look:
    """Look at the total of a resource."""
    return lambda data: f"`{of}.total` is {_shown(data.resources[of].total)}"


def member(name: str) -> Look:
    """Look at one member."""
    return lambda data: f"`{name}` is {_shown(getattr(data, name))}"


def _label(data: Registered) -> str:
    ((key, value),) = data.labels.items()
    size = len(value.encode())
    return (
        f"`{key}` has {size} bytes and ends in `{value[-14:]}`"
        if size > 30
        else f"labels are `{data.labels}`"
    )


def _amounts(data: Allocated) -> str:
    amounts = ", ".join(f"{name} {value}" for name, value in data.amounts.items())
    return f"the amounts are {amounts}"


def _shown(value: object) -> str:
    match value:
        case None:
            return "unknown (NULL)"
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return f"{value}"


FACTS: tuple[Example, ...] = (
    Example("not JSON", "hello"),
    Example("empty body", "", shown="(no byte)"),
    Example("not UTF-8", b'{"boot_id":"\xff","seq":1}', shown='`{"boot_id":"`byte FF`","seq":1}`'),
    Example("half a surrogate pair", r'{"boot_id":"\ud800","seq":1}'),
    Example("JSON, but no object", "[1,2,3]"),
    Example("more than 64 levels", "[" * 65 + "]" * 65, shown="65 nested lists"),
    registered("more than 64 KiB", f'"hostname":"{"h" * 65536}"', shown="a host name of 65,536 letters"),
    registered("the same key twice", '"zone":"a","zone":"b"'),
    Example("no boot id", '{"seq":1}'),
    Example("an empty boot id", '{"boot_id":"","seq":1}'),
    Example("a number as an id", '{"boot_id":7,"seq":1}'),
    Example("an id that looks like a number", '{"boot_id":"007","seq":1}', look=member("boot_id")),
    Example("a negative counter", '{"boot_id":"b1","seq":-1}'),
    Example("a counter that is a fraction", '{"boot_id":"b1","seq":1.5}'),
    registered("resources that are no object", '"resources":7'),
    registered("an amount that is a text", '"resources":{"cpu":{"total":"8"}}'),
    registered("an amount that is a boolean", '"resources":{"cpu":{"total":true}}'),
    registered("an amount that is NaN", '"resources":{"cpu":{"total":NaN}}', look=total("cpu")),
    registered("an infinite amount", '"resources":{"cpu":{"total":-Infinity}}', look=total("cpu")),
    registered("a number beyond every float", '"resources":{"cpu":{"total":1e999}}', look=total("cpu")),
    registered(
        "an amount of 10^28 or more", f'"resources":{{"disk":{{"total":1{"0" * 28}}}}}', look=total("disk")
    ),
    registered("a negative amount", '"resources":{"cpu":{"total":-4}}', look=total("cpu")),
    registered("zero", '"resources":{"gpu":{"total":0}}', look=total("gpu")),
    registered("null", '"resources":{"gpu":{"total":null}}', look=total("gpu")),
    registered("2^63", '"resources":{"memory":{"total":9223372036854775808}}', look=total("memory")),
    registered("more than nine decimals", '"resources":{"cpu":{"total":0.12345678951}}', look=total("cpu")),
    registered("a fraction that binary cannot hold", '"resources":{"cpu":{"total":0.1}}', look=total("cpu")),
    registered("an interval of no length", '"interval_s":0', look=member("interval_s")),
    registered("a time that is none", '"sent_at":"yesterday"', look=member("sent_at")),
    registered("a time without an offset", '"sent_at":"2026-01-01T00:00:00"', look=member("sent_at")),
    registered("year 2300", '"sent_at":"2300-01-01T00:00:00Z"', look=member("sent_at")),
    registered("year 10000", '"sent_at":"10000-01-01T00:00:00Z"', look=member("sent_at")),
    registered(
        "a long label", f'"labels":{{"k":"{"v" * 5000}"}}', shown="label `k` of 5,000 letters", look=_label
    ),
    registered("a label that only Fleetfold gives", '"labels":{"fleetfold/tier":"1","a":"b"}', look=_label),
    registered("a label that is a number", '"labels":{"rack":12}'),
    registered("a zone with a space", '"zone":"Default Group"', look=member("zone")),
    registered("a zone in decomposed Unicode", r'"zone":"Zu\u0308rich"', look=member("zone")),
    registered(
        "a member that nobody knows", '"colour":"red"', look=lambda data: f"`{data.model_extra}` is kept"
    ),
    registered("a body about another node", '"node_id":"n2"'),
    Example(
        "a subject that spells its node otherwise",
        '{"boot_id":"b1","seq":1}',
        "fleet.v1.agent.a%2eb.registered",
        "on `fleet.v1.agent.a%2eb.registered`",
    ),
    event("an envelope about another node", subject_='"n2"'),
    event("an envelope of another version", specversion='"0.3"'),
    event("an envelope without a type", without="type"),
    event("an envelope of another verb", type='"fleetfold.agent.leaving.v1"'),
    event("an event type of ours that is not known yet", type='"fleetfold.agent.registered.v9"'),
    event("an event type of somebody else", type='"com.example.thing"'),
    event("data that is not JSON", without="data", data_base64='"AAAA"'),
    Example("an operator's fact without an envelope", '{"owner":"ops"}', "fleet.v1.operator.n1.cordoned"),
    Example(
        "an acknowledgement sent to a fact's subject",
        '{"stream":"BEATS","seq":4}',
        "fleet.v1.operator.n1.cordoned",
    ),
    event(
        "an allocation of NaN",
        subject="fleet.v1.platform.n1.allocated",
        look=_amounts,
        type='"fleetfold.platform.allocated.v1"',
        data='{"workload":"w","amounts":{"cpu":NaN,"memory":1}}',
    ),
)


BEATS: tuple[Example, ...] = (
    Example("not JSON", "hello"),
    Example("no counter", '{"boot_id":"b1"}'),
    Example("a counter as text", '{"boot_id":"b1","seq":"2"}'),
    Example("no boot id", '{"seq":2}'),
    Example("the same key twice", '{"boot_id":"b1","seq":2,"seq":3}'),
    Example(
        "more than 4 KiB",
        '{"boot_id":"b1","seq":2,"note":"' + "x" * 4096 + '"}',
        shown="a note of 4,096 letters",
    ),
    Example("about another node", '{"boot_id":"b1","seq":2,"node_id":"n2"}'),
    Example("used as a list", '{"boot_id":"b1","seq":2,"used":[1]}'),
    Example("a measured text", '{"boot_id":"b1","seq":2,"used":{"cpu":"much","memory":5}}'),
    Example("a measured NaN", '{"boot_id":"b1","seq":2,"used":{"cpu":NaN,"memory":5}}'),
    Example("a time that is none", '{"boot_id":"b1","seq":2,"sent_at":"noon"}'),
    Example("a digest that is none", '{"boot_id":"b1","seq":2,"inventory":7}'),
    Example("a member that nobody knows", '{"boot_id":"b1","seq":2,"mood":"good"}'),
)


def facts_table() -> str:
    """Return what becomes of each odd record of FLEET."""
    return table(
        ("what is odd", "body", "what becomes of it"),
        ((one.odd, one.text, fact_outcome(one)) for one in FACTS),
    )


def beats_table() -> str:
    """Return what becomes of each odd heartbeat."""
    return table(
        ("what is odd", "body", "what becomes of it"),
        ((one.odd, one.text, beat_outcome(one)) for one in BEATS),
    )


def fact_outcome(example: Example) -> str:
    """Return what the codec makes of a record of FLEET."""
    try:
        fact = decode_fact(seq=1, stored_at_ns=AT_NS, subject=example.subject, payload=example.payload)
    except UnreadableError as err:
        return _quarantined(err.reason, err.field)
    return _kept(fact, example.look)


def beat_outcome(example: Example) -> str:
    """Return what the codec makes of a heartbeat."""
    one = np.array([AT_NS], dtype=np.int64)
    batch = Batch(
        stream="BEATS",
        seqs=np.array([1], dtype=np.int64),
        stored_at_ns=one,
        subjects=[b"fleet.v1.beat.n1"],
        payloads=[example.payload],
        cursor=Cursor("", 1, AT_NS),
    )
    beats = decode_beats(batch)
    parts = ["counts as contact" if len(beats.rows) else "counts as nothing"]
    parts += [_quarantined(one.reason, one.field) for one in beats.rejected]
    parts += [
        f"`{name}` is {_measured(value)}"
        for name, value in zip(beats.sample_names, beats.sample_values, strict=True)
    ]
    parts += [f"warning `{code}`" for code in beats.warnings]
    return "; ".join(parts)


def _kept(fact: Recorded, look: Look | None) -> str:
    if fact.data is None:
        return "kept, counted and skipped"
    parts = ["taken"]
    parts += [look(fact.data)] if look else []
    parts += [f"warning `{warning.code}` at `{warning.field}`" for warning in fact.warnings]
    return "; ".join(parts)


def _quarantined(reason: str, field: str) -> str:
    return f"quarantine: `{reason}`" + (f" at `{field}`" if field else "")


def _measured(value: float) -> str:
    return "unknown (NULL)" if np.isnan(value) else f"{value:g}"
