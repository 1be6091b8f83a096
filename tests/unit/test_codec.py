"""What becomes of single bodies: read, read with a warning, or unreadable with a reason."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson
import pytest

from events.amounts import ExactFloat
from events.body import MAX_DEPTH
from events.codec import Recorded, decode_fact, encode_json
from events.envelope import new_event
from events.errors import UnreadableError
from events.facts import Allocated, Cordoned, FactData, LabelsSet, Registered, Resource
from events.ids import NodeId
from events.reasons import FactWarning

REGISTERED = "fleet.v1.agent.n1.registered"
CORDONED = "fleet.v1.operator.n1.cordoned"
ALLOCATED = "fleet.v1.platform.n1.allocated"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _decode(payload: bytes, subject: str = REGISTERED) -> Recorded:
    return decode_fact(seq=7, stored_at_ns=1_777_636_800_123_456_789, subject=subject, payload=payload)


def _registered(members: bytes) -> tuple[Registered, list[str]]:
    fact = _decode(b'{"boot_id":"b1","seq":1,%s}' % members)
    assert isinstance(fact.data, Registered)
    return fact.data, [f"{warning.code} {warning.field}" for warning in fact.warnings]


def _event(members: dict[str, Any], *, verb: str = "cordoned") -> bytes:
    type_text = f"fleetfold.operator.{verb}.v1"
    event = {"specversion": "1.0", "id": "e1", "source": "/api", "type": type_text}
    return orjson.dumps(event | members)


def _reason(payload: bytes, subject: str = REGISTERED) -> str:
    with pytest.raises(UnreadableError) as raised:
        _decode(payload, subject)
    return f"{raised.value.reason} {raised.value.field}".strip()


def test_a_bare_body_from_a_shell_is_a_registration() -> None:
    payload = b'{"boot_id":"b1","seq":1,"resources":{"cpu":{"total":8}}}'

    fact = _decode(payload)

    assert fact.data == Registered(boot_id="b1", seq=1, resources={"cpu": Resource(total=Decimal(8))})
    assert fact.stored_at == NOON + timedelta(microseconds=123_456)
    assert fact == Recorded(
        seq=7,
        stored_at=fact.stored_at,
        subject=REGISTERED,
        node_id=NodeId("n1"),
        zone=None,
        owner="agent",
        verb="registered",
        type="fleetfold.agent.registered.v1",
        source="/agent",
        event_id="",
        sent_at=None,
        data=fact.data,
        raw=payload,
    )


def test_a_body_without_envelope_is_an_event_only_from_an_agent() -> None:
    for subject in (CORDONED, ALLOCATED, "fleet.v1.liveness.n1.alive", "fleet.v1.zone.~az.silent"):
        assert _reason(b'{"owner":"ops"}', subject) == "not_an_event"


def test_an_acknowledgement_aimed_at_a_subject_is_no_event() -> None:
    acknowledgement = b'{"stream":"FLEET","seq":4}'

    assert _reason(acknowledgement, CORDONED) == "not_an_event"
    assert _reason(acknowledgement, REGISTERED) == "missing boot_id"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not_json"),
        (b"nonsense", "not_json"),
        (b'{"boot_id":"b1","seq":1}}', "not_json"),
        (b'{"boot_id":"b1\n","seq":1}', "not_json"),
        (b'{"boot_id":"\xff","seq":1}', "not_utf8"),
        (b'{"boot_id":"\\ud800","seq":1}', "not_utf8"),
        (b'{"boot_id":"b1","seq":1,"x":{"\\udc00":1}}', "not_utf8"),
        (b"[1]", "not_an_object"),
        (b"NaN", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"{}", "missing boot_id"),
        (b'{"boot_id":"","seq":1}', "missing boot_id"),
        (b'{"boot_id":"b1"}', "missing seq"),
        (b'{"boot_id":17,"seq":1}', "bad_type boot_id"),
        (b'{"boot_id":"b1","seq":"1"}', "bad_type seq"),
        (b'{"boot_id":"b1","seq":true}', "bad_type seq"),
        (b'{"boot_id":"b1","seq":-1}', "bad_type seq"),
        (b'{"boot_id":"b1","seq":9223372036854775808}', "bad_type seq"),
        (b'{"boot_id":"b1","seq":1,"resources":7}', "bad_type resources"),
        (b'{"boot_id":"b1","seq":1,"resources":{"cpu":8}}', "bad_type resources.cpu"),
        (b'{"boot_id":"b1","seq":1,"resources":{"cpu":{"total":"8"}}}', "bad_type resources.cpu.total"),
        (b'{"boot_id":"b1","seq":1,"resources":{"cpu":{"total":true}}}', "bad_type resources.cpu.total"),
        (b'{"boot_id":"b1","seq":1,"labels":{"cores":8}}', "bad_type labels.cores"),
        (b'{"boot_id":"b1","seq":1,"devices":[{"kind":"gpu"}]}', "missing devices.0.id"),
        (b'{"boot_id":"b1","seq":1,"addresses":"192.0.2.1"}', "bad_type addresses"),
        (b'{"boot_id":"b1","seq":1,"interval_s":"10"}', "bad_type interval_s"),
        (b'{"boot_id":"b1","boot_id":"b2","seq":1}', "duplicate_key boot_id"),
        (b'{"boot_id":"b1","seq":1,"x":[{"a" : 1, "\\u0061":2}]}', "duplicate_key a"),
        (b'{"boot_id":"b1","seq":1,"node_id":"n2"}', "subject_mismatch data.node_id"),
        (b'{"boot_id":"b1","seq":1,"node_id":1}', "subject_mismatch data.node_id"),
    ],
)
def test_a_body_that_cannot_be_read_has_a_reason(payload: bytes, reason: str) -> None:
    assert _reason(payload) == reason


def test_a_body_above_64_kib_is_oversized_even_where_a_stream_took_it() -> None:
    body = b'{"boot_id":"b1","seq":1,"x":"%s"}'
    fits = body % (b"x" * (65_536 - len(body) + 2))

    assert len(fits) == 65_536
    assert _decode(fits).data is not None
    assert _reason(fits[:-2] + b'x"}') == "oversized"


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_deep_body_is_too_deep_and_no_stack_overflows(opening: bytes) -> None:
    closing = {b"[": b"]", b'{"a":': b"}"}[opening]

    assert _reason(opening * 10_000 + b"1" + closing * 10_000) == "too_deep"
    assert _reason(opening * 10_000) == "too_deep"
    deepest = opening * (MAX_DEPTH - 1) + b"1" + closing * (MAX_DEPTH - 1)
    assert _decode(b'{"boot_id":"b1","seq":1,"x":' + deepest + b"}").data is not None
    assert _reason(b'{"boot_id":"b1","seq":1,"x":[' + deepest + b"]}") == "too_deep"


def test_brackets_in_texts_are_no_levels() -> None:
    data, _ = _registered(b'"hostname":"%s\\"%s"' % (b"[{" * 500, b"[" * 500))

    assert data.hostname == "[{" * 500 + '"' + "[" * 500


def test_what_is_not_a_number_is_unknown_with_a_warning() -> None:
    data, warnings = _registered(
        b'"resources":{"gpu":{"total":NaN,"reserved":-Infinity,"ratio":1}},"power":[Infinity]'
    )

    assert data.resources == {"gpu": Resource(ratio=Decimal(1))}
    assert data.model_extra == {"power": [None]}
    assert warnings == [
        "not_reported resources.gpu.total",
        "not_reported resources.gpu.reserved",
        "not_reported power.0",
    ]


def test_zero_unknown_and_absent_stay_three_things() -> None:
    data, warnings = _registered(
        b'"resources":{"gpu":{"total":0,"source":"error"},"vm":{"total":null},"disk":null}'
    )

    assert data.resources["gpu"] == Resource(total=Decimal(0), source="error")
    assert data.resources["vm"] == data.resources["disk"] == Resource()
    assert "cpu" not in data.resources
    assert warnings == []


def test_a_negative_amount_is_kept_with_a_warning() -> None:
    data, warnings = _registered(b'"resources":{"cpu":{"total":-2.5}},"devices":[{"id":"d","memory":-1}]')

    assert data.resources["cpu"].total == Decimal("-2.5")
    assert data.devices[0].memory == -1
    assert sorted(warnings) == ["negative_amount devices.0.memory", "negative_amount resources.cpu.total"]


@pytest.mark.parametrize(
    "number", [b"1e28", b"-1e28", b"1e999", b"-1" + b"0" * 28, b"9" * 5000, b"1e99999999999"]
)
def test_an_amount_beyond_1e28_is_unknown_with_a_warning(number: bytes) -> None:
    data, warnings = _registered(b'"resources":{"disk":{"total":%s}}' % number)

    assert data.resources == {"disk": Resource()}
    assert warnings == ["amount_out_of_range resources.disk.total"]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (b"9223372036854775808", "9223372036854775808"),
        (b"18446744073709551616", "18446744073709551616"),
        (b"9999999999999999999999999999", "9999999999999999999999999999"),
        (b"9007199254740993.0", "9007199254740993"),
        (b"1234567890123456789.123456789", "1234567890123456789.123456789"),
        (b"0.1", "0.1"),
        (b"0.30000000000000004", "0.3"),
        (b"1.0000000005", "1"),
        (b"1.0000000015", "1.000000002"),
        (b"2.5e3", "2500"),
        (b"1e-10", "0"),
        (b"1e-99999999999", "0"),
        (b"-0.0", "0"),
    ],
)
def test_an_amount_is_the_number_that_was_written_to_nine_places(written: bytes, kept: str) -> None:
    data, warnings = _registered(b'"resources":{"disk":{"total":%s}}' % written)

    assert data.resources["disk"].total == Decimal(kept)
    assert warnings == []


def test_ids_and_texts_that_look_like_numbers_stay_texts() -> None:
    data, _ = _registered(b'"machine_id":"007","hostname":"1e5","labels":{"1":"2.50"}')

    assert (data.machine_id, data.hostname, data.labels) == ("007", "1e5", {"1": "2.50"})


def test_a_long_label_is_cut_and_marked_and_the_node_still_registers() -> None:
    first, second = "g" * 5000, "g" * 4999 + "h"
    data, warnings = _registered(
        b'"labels":%s' % orjson.dumps({"group": first, "other": second, "é" * 600: "x", "ok": "é" * 512})
    )

    values = list(data.labels.items())
    assert len(values) == 4
    assert all(len(key.encode()) <= 1024 and len(value.encode()) <= 1024 for key, value in values)
    assert data.labels["group"].startswith("g" * 1000)
    assert data.labels["group"][-14:-12] == "…#"
    assert data.labels["group"] != data.labels["other"]
    assert data.labels["ok"] == "é" * 512
    assert warnings == ["truncated labels.group", "truncated labels.other", f"truncated labels.{'é' * 200}"]


def test_a_label_of_ours_from_an_agent_is_dropped_with_a_warning_and_an_operators_is_kept() -> None:
    data, warnings = _registered(b'"labels":{"fleetfold/tier":"pci","f":"1","secure":null}')
    set_by_operator = _decode(
        _event({"data": {"labels": {"fleetfold/tier": "pci"}}}, verb="labels_set"),
        "fleet.v1.operator.n1.labels_set",
    )

    assert data.labels == {"f": "1"}
    assert warnings == ["protected_label labels.fleetfold/tier", "not_reported labels.secure"]
    assert set_by_operator.data == LabelsSet(labels={"fleetfold/tier": "pci"})


@pytest.mark.parametrize("member", ["region", "zone", "pool"])
def test_a_place_of_any_script_is_kept_in_one_form(member: str) -> None:
    decomposed = unicodedata.normalize("NFD", "Überstadt 中文")

    data, warnings = _registered(orjson.dumps({member: decomposed})[1:-1])

    assert getattr(data, member) == unicodedata.normalize("NFC", decomposed)
    assert warnings == []


def test_an_empty_place_is_none_and_a_long_one_still_fits_a_subject() -> None:
    data, warnings = _registered(orjson.dumps({"region": "", "zone": "中" * 200, "pool": "x" * 250})[1:-1])

    assert data.region is None
    assert data.zone is not None
    assert len(data.zone.encode()) <= 250
    assert data.pool == "x" * 250
    assert warnings == ["truncated zone"]


def test_an_absent_list_may_be_spelled_null() -> None:
    data, warnings = _registered(
        b'"addresses":null,"labels":null,"resources":null,"devices":null,"gates":null,"zone":null,"agent":null'
    )

    assert data == Registered(boot_id="b1", seq=1)
    assert warnings == []


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-05-01T12:00:00Z", NOON),
        ("2026-05-01t14:00:00.000+02:00", NOON),
        ("2026-05-01 12:00:00", NOON),
        ("2026-05-01T12:00:00.123456789Z", NOON + timedelta(microseconds=123_456)),
        ("2262-04-12T00:00:00Z", datetime(2262, 4, 12, tzinfo=UTC)),
        ("9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_time_that_we_can_hold_is_kept_in_utc(text: str, time: datetime) -> None:
    data, warnings = _registered(orjson.dumps({"sent_at": text})[1:-1])

    assert data.sent_at == time
    assert data.sent_at.tzinfo is UTC
    assert warnings == []


@pytest.mark.parametrize(
    "value",
    [
        *("yesterday", "", "2026-13-01T00:00:00Z", "10000-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00"),
        *("20260501T120000Z", "2026-05-01", "2026-05-01T12:00:60Z", "２０26-05-01T12:00:00Z"),
        *(1777636800, True, {"at": 1}),
    ],
)
def test_a_time_that_we_cannot_hold_is_none_with_a_warning(value: object) -> None:
    data, warnings = _registered(orjson.dumps({"sent_at": value})[1:-1])

    assert data.sent_at is None
    assert warnings == ["time_out_of_range sent_at"]


@pytest.mark.parametrize("interval", [b"0", b"-1", b"1e9", b"0.0"])
def test_an_interval_that_cannot_be_one_is_none_with_a_warning(interval: bytes) -> None:
    data, warnings = _registered(b'"interval_s":%s' % interval)

    assert data.interval_s is None
    assert warnings == ["amount_out_of_range interval_s"]


def test_unknown_members_are_kept_at_every_level() -> None:
    members = {
        "site": {"row": 4, "tags": [None, True, 1.5, "x"]},
        "resources": {"cpu": {"total": 8, "numa": [4, 4]}},
        "devices": [{"id": "d", "slot": 3}],
        "agent": {"name": "a", "build": 18446744073709551616},
    }
    data, _ = _registered(
        b'"site":{"row":4,"tags":[null,true,1.5,"x"]},"resources":{"cpu":{"total":8,"numa":[4,4]}},'
        b'"devices":[{"id":"d","slot":3}],"agent":{"name":"a","build":18446744073709551616}'
    )

    assert data.model_extra == {"site": members["site"]}
    assert encode_json(data) == (
        b'{"boot_id":"b1","seq":1,"agent":{"name":"a","build":18446744073709551616},'
        b'"resources":{"cpu":{"total":8,"numa":[4,4]}},"devices":[{"id":"d","slot":3}],'
        b'"site":{"row":4,"tags":[null,true,1.5,"x"]}}'
    )


def test_a_type_that_nobody_knows_is_kept_and_skipped() -> None:
    for type_text, subject in (
        ("fleetfold.operator.danced.v1", "fleet.v1.operator.n1.danced"),
        ("fleetfold.operator.cordoned.v9", CORDONED),
        ("com.example.inspected.v1", CORDONED),
    ):
        fact = _decode(_event({"type": type_text, "data": {"x": 1}}), subject)
        assert (fact.data, fact.type, fact.warnings) == (None, type_text, ())
    assert _decode(b'{"x":1}', "fleet.v1.agent.n1.sneezed").type == "fleetfold.agent.sneezed.v1"


def test_a_type_that_belongs_to_another_subject_is_refused() -> None:
    cordoned = _event({"data": {"owner": "ops"}})

    assert _decode(cordoned, CORDONED).data == Cordoned(owner="ops")
    for subject in (REGISTERED, "fleet.v1.operator.n1.drained", "fleet.v1.zone.~az.silent"):
        assert _reason(cordoned, subject) == "subject_mismatch type"


def test_an_event_about_another_node_is_refused() -> None:
    told = {"data": {"owner": "ops"}}

    assert _decode(_event(told | {"subject": "n1"}), CORDONED).node_id == "n1"
    assert _reason(_event(told | {"subject": "n2"}), CORDONED) == "subject_mismatch subject"
    assert _reason(_event(told | {"subject": 1}), CORDONED) == "subject_mismatch subject"
    assert _decode(_event(told | {"subject": "e\u0301"}), "fleet.v1.operator.%C3%A9.cordoned").node_id == "é"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"specversion": "0.3"}, "not_an_event specversion"),
        ({"specversion": 1.0}, "not_an_event specversion"),
        ({"id": ""}, "missing id"),
        ({"id": None}, "missing id"),
        ({"id": 1}, "bad_type id"),
        ({"source": None}, "missing source"),
        ({"type": None}, "missing type"),
        ({"type": ["x"]}, "bad_type type"),
        ({"datacontenttype": "text/xml"}, "not_an_event datacontenttype"),
        ({"datacontenttype": 1}, "not_an_event datacontenttype"),
        ({"data_base64": "e30="}, "not_an_event data_base64"),
        ({"data": [1]}, "not_an_object data"),
        ({"data": None}, "missing owner"),
    ],
)
def test_an_envelope_that_is_not_one_has_a_reason(members: dict[str, Any], reason: str) -> None:
    assert _reason(_event({"data": {"owner": "ops"}} | members), CORDONED) == reason


def test_an_envelopes_other_attributes_and_media_types_of_json_are_fine() -> None:
    payload = _event(
        {
            "data": {"owner": "ops"},
            "datacontenttype": "application/json; charset=utf-8",
            "traceparent": "00-x",
        }
    )

    assert _decode(payload, CORDONED).data == Cordoned(owner="ops")


def test_the_envelopes_time_counts_before_the_datas_and_a_bad_one_is_a_warning() -> None:
    data = {"boot_id": "b1", "seq": 1, "sent_at": "2026-05-01T12:00:00Z"}
    told = {"type": "fleetfold.agent.registered.v1", "data": data}

    both = _decode(_event(told | {"time": "2026-05-01T13:00:00Z"}))
    bad = _decode(_event(told | {"time": "soon"}))

    assert both.sent_at == NOON + timedelta(hours=1)
    assert bad.sent_at == NOON
    assert bad.warnings == (FactWarning("time_out_of_range", "time", "'soon' is no time we can hold"),)


def test_an_allocation_leaves_out_what_has_no_amount() -> None:
    event = _event({"type": "fleetfold.platform.allocated.v1"})
    payload = (
        event[:-1] + b',"data":{"workload":"vm-1","amounts":{"cpu":2.5,"gpu":null,"disk":1e30,"x":NaN}}}'
    )

    fact = _decode(payload, ALLOCATED)

    assert fact.data == Allocated(workload="vm-1", amounts={"cpu": Decimal("2.5")})
    assert {f"{warning.code} {warning.field}" for warning in fact.warnings} == {
        "not_reported amounts.gpu",
        "not_reported amounts.x",
        "not_reported amounts.disk",
        "amount_out_of_range amounts.disk",
    }


@pytest.mark.parametrize("subject", ["", "fleet.v1.beat.n1", "fleet.v1.agent.a%2eb.registered", "\udcff"])
def test_a_subject_that_is_none_of_ours_is_a_reason(subject: str) -> None:
    assert _reason(b'{"boot_id":"b1","seq":1}', subject).startswith("invalid_subject")


def test_a_number_too_long_for_a_float_survives_where_nobody_knows_its_member() -> None:
    fact = _decode(b'{"boot_id":"b1","seq":1,"x":[1.23456789012345678901234567890]}')

    assert fact.data is not None
    assert fact.data.model_extra is not None
    kept = fact.data.model_extra["x"][0]
    assert isinstance(kept, ExactFloat)
    assert encode_json(fact.data) == b'{"boot_id":"b1","seq":1,"x":[1.23456789012345678901234567890]}'


def test_a_fact_that_could_not_be_read_back_is_refused_before_it_is_appended() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]

    for extra in ({"x": deep}, {"x": "\ud800"}):
        with pytest.raises(UnreadableError):
            encode_json(Registered(boot_id="b1", seq=1, **extra))


@pytest.mark.parametrize("event_id", ["", " ", "a\r\nNats-Expected-Stream: X", " a", "x" * 513, "\x00"])
def test_an_id_that_a_header_cannot_carry_is_refused(event_id: str) -> None:
    with pytest.raises(ValueError, match="event id"):
        new_event(Cordoned(owner="ops"), about=NodeId("n1"), source="/api", event_id=event_id, time=NOON)


def test_an_event_needs_a_source_an_aware_time_and_data_of_a_known_type() -> None:
    class Danced(FactData):
        pass

    naive = NOON.replace(tzinfo=None)
    for data, source, time in (
        (Danced(), "/api", NOON),
        (Cordoned(owner="ops"), "", NOON),
        (Cordoned(owner="ops"), "/api", naive),
    ):
        with pytest.raises(ValueError, match="event"):
            new_event(data, about=NodeId("n1"), source=source, event_id="e", time=time)


def test_facts_are_frozen_and_their_times_aware() -> None:
    data = Registered(boot_id="b1", seq=1)

    with pytest.raises(ValueError, match="frozen"):
        data.seq = 2
    with pytest.raises(ValueError, match="aware"):
        Registered(boot_id="b1", seq=1, sent_at=NOON.replace(tzinfo=None))
