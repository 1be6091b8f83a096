"""Why a node is what it is, over HTTP and NATS: what is gathered, and from where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from api.models import Problem
from api.nats_routes import start_nats_routes
from api.why_models import WhyAnswer
from events.ids import node_id
from events.subjects import beat_subject, fact_subject
from projections.judging import Outlook
from tests.support.brokers import AnyBroker
from tests.support.fleet import Fleet, fleet
from tests.support.loops import on_a_loop
from tests.support.publishing import connected
from tests.support.serving import serving
from tests.support.waiting import until

anyio = pytest.mark.anyio
LOST_AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path) as made:
        yield made


async def _why(served: Fleet, node: str) -> WhyAnswer:
    got = await served.get(f"/nodes/{quote(node, safe='')}/why")
    assert got.status == 200, got.json
    return WhyAnswer.model_validate_json(got.body)


@anyio
async def test_a_verdict_comes_with_what_its_fact_was_made_on(served: Fleet) -> None:
    served.registered("a/b", zone="z1", labels={"env": "prod"})
    served.beat("a/b", seq=4)
    served.said("liveness", "a/b", "alive", boot_id="b1", rule="it beat")
    served.said("operator", "a/b", "cordoned", owner="ops", actor="ada", reason="disk")
    cause = served.said(
        "liveness", "a/b", "lost", boot_id="b1", rule="silent", silent_s=31.2, grace_s=30.0, beat_seq=1,
        last_heartbeat_at="2026-05-01T11:59:00Z", deadline_at="2026-05-01T11:59:30Z",
    )  # fmt: skip

    why = await _why(served, "a/b")

    assert (why.state, why.liveness, why.intent, why.lifecycle) == ("lost", "lost", "cordoned", "active")
    assert why.verdict is not None
    assert (why.verdict.word, why.verdict.cause_seq, why.verdict.rule) == ("lost", cause, "silent")
    assert (why.verdict.silent_s, why.verdict.grace_s, why.verdict.beat_seq) == (31.2, 30.0, 1)
    assert why.verdict.deadline_at == datetime(2026, 5, 1, 11, 59, 30, tzinfo=UTC)
    assert "31.2 s, allowed are 30 s" in why.summary
    assert [(hold.owner, hold.actor, hold.reason) for hold in why.holds] == [("ops", "ada", "disk")]
    assert (why.changes[0].cause_seq, why.changes[0].kind, why.changes[0].detail) == (cause, "state", "lost")
    assert ("uncordon by owner ops", "lost") in [(one.event, one.state) for one in why.would_change]
    assert why.last_beats is None
    assert why.last_beats_unknown == "this service has no connection to a broker"


@anyio
async def test_a_heartbeat_an_inventory_and_a_change_have_times_of_their_own(served: Fleet) -> None:
    began = served.at
    served.registered("n1", seq=1)
    served.at = began + timedelta(minutes=1)
    served.said("liveness", "n1", "alive", boot_id="b1")
    served.at = began + timedelta(minutes=2)
    served.registered("n1", seq=2)
    served.at = began + timedelta(minutes=5)
    served.beat("n1", seq=3)

    why = await _why(served, "n1")
    node = (await served.get("/nodes/n1")).json

    minutes = {
        name: round((getattr(why, name) - began) / timedelta(minutes=1))
        for name in ("inventory_at", "changed_at", "last_heartbeat_at")
    }
    assert minutes == {"inventory_at": 0, "changed_at": 1, "last_heartbeat_at": 5}
    for name in minutes:
        assert datetime.fromisoformat(node[name]) == getattr(why, name)
    assert why.identity.reports.identical == 1


@anyio
async def test_what_the_evaluator_goes_by_is_shown_and_why_it_says_nothing(tmp_path: Path) -> None:
    late = Outlook(True, LOST_AT, 20.0, 30.0, "degraded", "what the broker stored is not folded yet", 10.0)
    given = {
        "outlook": {"n1": late}.get,
        "liveness_mode": lambda: "degraded",
        "liveness_reason": lambda: "what the broker stored is not folded yet",
    }
    with fleet(tmp_path, **given) as served:
        served.registered("n1")
        served.said("liveness", "n1", "alive", boot_id="b1")

        why = await _why(served, "n1")
        status = (await served.get("/status")).json

    assert (why.judging.mode, why.judging.interval_s, why.judging.grace_s) == ("degraded", 10.0, 30.0)
    assert (why.judging.suspect, why.judging.expected_lost_at) == (True, LOST_AT)
    assert why.judging.withheld == "what the broker stored is not folded yet"
    assert (status["liveness_mode"], status["liveness_reason"]) == ("degraded", why.judging.reason)


@anyio
async def test_a_zone_that_holds_a_verdict_shows_its_rule(served: Fleet) -> None:
    served.registered("n1", zone="z1")
    held_until = datetime.now(UTC) + timedelta(minutes=5)
    silent = {"count": 12, "members": 20, "rule": "half of them", "held_until": held_until.isoformat()}
    kind = "fleetfold.zone.silent.v1"
    event = {"specversion": "1.0", "id": "z", "source": "/t", "type": kind, "data": silent}
    cause = served.record("fleet.v1.zone.~z1.silent", json.dumps(event).encode())

    zone = (await _why(served, "n1")).judging.zone

    assert zone is not None
    assert (zone.zone, zone.is_silent, zone.is_holding, zone.cause_seq) == ("z1", True, True, cause)
    assert (zone.silent, zone.members, zone.rule, zone.held_until) == (12, 20, "half of them", held_until)


@anyio
async def test_conditions_of_other_nodes_and_of_the_clock_are_in_items_and_explained(served: Fleet) -> None:
    served.registered("n1", hostname="cmp-17", addresses=["10.0.0.7"])
    served.registered("n2", hostname="cmp-17", addresses=["10.0.0.7"])
    served.beat("n1", sent_at=(served.at - timedelta(hours=1)).isoformat())

    items = {item["id"]: item for item in (await served.get("/nodes")).json["items"]}
    why = await _why(served, "n1")

    assert items["n1"]["conditions"] == ["duplicate_address", "name_shared", "clock_skew"]
    assert items["n2"]["conditions"] == ["duplicate_address", "name_shared"]
    assert items["n1"]["heartbeats"]["skewed_since"] is not None
    assert {one.name: one.about for one in why.conditions} == {
        "duplicate_address": "the address 10.0.0.7 is also that of n2",
        "name_shared": "the name cmp-17 is also that of n2",
        "clock_skew": "its clock was 60 min behind the broker's at its last heartbeat",
    }


@anyio
async def test_a_retired_node_is_explained_though_it_is_gone(served: Fleet) -> None:
    served.registered("old")
    served.said("operator", "old", "retired", actor="ada", reason="sold")

    why = await _why(served, "old")

    assert (why.state, why.lifecycle) == ("retired", "retired")
    assert why.retirement is not None
    assert (why.retirement.actor, why.retirement.reason, why.retirement.restored_at) == ("ada", "sold", None)
    assert why.summary.startswith("retired: ada took it out of the fleet")


@anyio
async def test_an_unknown_node_says_what_else_was_seen_of_it(served: Fleet) -> None:
    served.beat("early", boot_id="b7")
    served.record(fact_subject("agent", node_id("broken"), "registered"), b"not json")

    early = await served.get("/nodes/early/why")
    broken = await served.get("/nodes/broken/why")
    nobody = await served.get("/nodes/nobody/why")

    for got in (early, broken, nobody):
        Problem.model_validate_json(got.body)
        assert (got.status, got.json["code"]) == (404, "unknown_node")
    assert early.json["heartbeats"]["boot_id"] == "b7"
    assert "it beats" in early.json["detail"]
    assert [(one["stream"], one["records"]) for one in broken.json["unreadable"]] == [("FLEET", 1)]
    assert "could not be read (last: not_json)" in broken.json["detail"]
    assert (nobody.json["heartbeats"], nobody.json["unreadable"]) == (None, [])


@on_a_loop
async def test_the_last_heartbeats_come_from_the_broker_with_their_delays(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await served.publish("fleet.v1.agent.n1.registered", b'{"boot_id":"b1","seq":1,"interval_s":10}')
        for seq in range(2, 16):
            sent_at = (datetime.now(UTC) - timedelta(seconds=2)).isoformat()
            await served.publish(
                beat_subject(node_id("n1")),
                json.dumps({"boot_id": "b1", "seq": seq, "sent_at": sent_at}).encode(),
            )

        got = await served.ask("GET", "/fleet/v1/nodes/n1/why")

        why = WhyAnswer.model_validate_json(got.body)
        assert why.last_beats is not None
        assert [beat.seq for beat in why.last_beats] == list(range(15, 5, -1))
        assert all(beat.delay_ms is not None and beat.delay_ms >= 2000 for beat in why.last_beats)
        assert all(beat.since_previous_ms is not None for beat in why.last_beats)
        assert why.last_beats_unknown == ""
        assert why.summary == "pending: heartbeats of boot b1 come, and no verdict on them was made yet"


@on_a_loop
async def test_a_broker_that_is_away_leaves_the_rest_of_the_answer(
    own_broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(own_broker, tmp_path) as served:
        await served.publish("fleet.v1.agent.n1.registered", b'{"boot_id":"b1","seq":1}')
        own_broker.kill()
        await until(lambda: not served.nc.is_connected)

        why = WhyAnswer.model_validate_json((await served.ask("GET", "/fleet/v1/nodes/n1/why")).body)

        assert why.last_beats is None
        assert why.last_beats_unknown == "not connected"
        assert why.state == "pending"


@on_a_loop
async def test_the_question_is_answered_over_nats_as_over_http(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served, connected(broker.url) as theirs:
        await served.publish("fleet.v1.agent.n1.registered", b'{"boot_id":"b1","seq":1,"zone":"z1"}')
        routes = await start_nats_routes(served.answers.service)
        try:
            reply = await theirs.request("fleet.api.v1.why", b'{"node_id":"n1"}', timeout=5)
            unknown = await theirs.request("fleet.api.v1.why", b'{"node_id":"n2"}', timeout=5)
            over_http = (await served.ask("GET", "/fleet/v1/nodes/n1/why")).json
        finally:
            await routes.stop()

        over_nats = json.loads(reply.data)
        for answer in (over_nats, over_http):
            del answer["as_of"]
        assert over_nats == over_http
        assert json.loads(unknown.data)["code"] == "unknown_node"
