"""The parts that dialects share: strict reading, quantities, tokens, what a registration is in the log."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from api.dialects.calls import fingerprint, is_one_of
from api.dialects.quantities import quantity
from api.dialects.reading import read_members
from api.dialects.refusal import Fault, Refusal
from api.dialects.registration import Report, is_of, next_boot, registration
from events.facts import Registered
from events.ids import node_id
from projections.parts import Retirement, Verdict
from projections.state import NodeState

AT = datetime(2026, 6, 1, tzinfo=UTC)
REPORT = Report(native_id="n1", attributes={"size": 8}, labels={"a": "1", "b": "2"})


def test_faults_are_collected_and_named_by_their_path() -> None:
    body = read_members(b'{"a": 1, "in": {"flag": "yes", "list": [{"n": 1.5}, 7]}}')

    body.needed_text("a")
    inner = body.needed_inner("in")
    inner.flag("flag")
    for one in inner.objects("list") or []:
        one.integer("n")
    body.needed_integer("missing")

    with pytest.raises(Refusal) as refused:
        body.done()
    assert refused.value.kind == "invalid"
    assert [fault.field for fault in refused.value.faults] == [
        "a",
        "in.flag",
        "in.list[1]",
        "in.list[0].n",
        "missing",
    ]
    assert Fault("missing", "is required") in refused.value.faults


def test_null_is_missing_only_where_the_dialect_says_so() -> None:
    strict, lenient = read_members(b'{"a": null}'), read_members(b'{"a": null}', is_null_missing=True)

    assert (strict.text("a"), lenient.text("a")) == (None, None)
    assert ([fault.field for fault in strict.faults], lenient.faults) == (["a"], [])


def test_a_whole_number_may_be_spelled_with_a_point() -> None:
    body = read_members(b'{"a": 8.0, "b": 9007199254740993.0, "c": 8.5, "d": 1e400, "e": "8", "f": 1e3}')

    read = [body.integer(name) for name in "abcdef"]

    assert read == [8, 9007199254740993, None, None, None, 1000]


def test_numbers_are_kept_as_they_are_written() -> None:
    body = read_members(b'{"a": 0.1, "b": 9007199254740993, "c": 1e400, "d": true, "e": 123456789012345.25}')

    assert (body.number("a"), body.number("b")) == (Decimal("0.1"), Decimal(9007199254740993))
    assert body.number("e") == Decimal("123456789012345.25")
    assert (body.number("c"), body.number("d")) == (None, None)
    assert len(body.faults) == 2


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", "0.5"), ("4Gi", str(4 * 2**30)), ("100Mbps", "100000000"), ("8", "8"), ("1.5", "1.5"),
        ("1e3", "1000"), (".5", "0.5"), ("0", "0"), ("12E", str(12 * 10**18)), ("2Ki", "2048"),
    ],
)  # fmt: skip
def test_a_quantity_is_a_number(text: str, number: str) -> None:
    assert quantity(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "abc", "4 Gi", "4GB", "1e99", "--1", "NaN", "9" * 40, "٣"])
def test_what_is_no_quantity_is_unknown(text: str) -> None:
    assert quantity(text) is None


def test_a_token_is_found_whatever_its_place_and_nothing_else_is() -> None:
    assert is_one_of("b", ["a", "b"])
    assert not is_one_of("", ["a", "b"])
    assert not is_one_of("ü", ["a"])
    assert not is_one_of("a", [])
    assert fingerprint("secret") == "2bb80d537b1da3e3"


def test_a_registration_that_says_nothing_new_is_no_fact() -> None:
    first = _registered(None)
    state = _state(first)
    same = Report(native_id="n1", attributes={"size": 8}, labels={"b": "2", "a": "1"})

    assert (first.boot_id, first.seq, first.interval_s) == ("fuse-1", 1, 30.0)
    assert registration(state, same, dialect="fuse", interval_s=30.0) == []
    changed = _registered(state, attributes={"size": 9})
    assert (changed.boot_id, changed.seq) == ("fuse-1", 2)


def test_a_boot_begins_anew_after_a_retirement_and_where_asked_after_a_loss() -> None:
    state = _state(_registered(None))
    lost = state._replace(verdict=Verdict("lost", "fuse-1", AT, 2))
    retired = state._replace(retirement=Retirement(1, AT, "ops", ""))

    assert registration(lost, REPORT, dialect="fuse", interval_s=30.0) == []
    assert _registered(lost, begins_anew_when_lost=True).boot_id == "fuse-2"
    assert _registered(retired).boot_id == "fuse-2"
    assert (is_of(state, "fuse"), is_of(state, "stratum"), is_of(retired, "fuse")) == (True, False, False)


def test_a_boot_that_is_not_ours_is_followed_by_one_that_is() -> None:
    state = _state(_registered(None))._replace(boot_id="b1", previous_boots=("fuse-3", "fuse-x", "fuse-1"))

    assert next_boot(state, dialect="fuse", is_new=False) == ("fuse-4", 1)


def test_without_heartbeats_a_node_is_not_monitored() -> None:
    (fact,) = registration(None, REPORT, dialect="fuse", interval_s=None)

    assert isinstance(fact, Registered)
    assert fact.dialect is not None
    assert (fact.dialect["monitored"], fact.dialect["native_id"], fact.interval_s) == (False, "n1", None)


def _registered(
    state: NodeState | None, *, attributes: dict[str, int] | None = None, begins_anew_when_lost: bool = False
) -> Registered:
    report = Report(native_id="n1", attributes=attributes or {"size": 8}, labels={"a": "1", "b": "2"})
    (fact,) = registration(
        state, report, dialect="fuse", interval_s=30.0, begins_anew_when_lost=begins_anew_when_lost
    )
    assert isinstance(fact, Registered)
    return fact


def _state(fact: Registered) -> NodeState:
    return NodeState(
        node_id("fuse:n1"),
        1,
        AT,
        agent_seq=fact.seq,
        boot_id=fact.boot_id,
        registered_at=AT,
        boot_at=AT,
        dialect=fact.dialect,
    )
