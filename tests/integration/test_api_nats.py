"""Questions over NATS, on a real broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from api import nats_routes
from api.capacity_models import CapacityAnswer
from api.models import Problem
from api.node_models import NodeAnswer, NodesAnswer
from api.status_models import StatusAnswer
from events.ids import node_id, token
from tests.support.asgi import strict_json
from tests.support.brokers import AnyBroker
from tests.support.fleet import Fleet, fleet
from tests.support.publishing import connected

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def answering(broker: AnyBroker, folder: Path) -> AsyncIterator[tuple[Fleet, Client]]:
    """A fleet that answers on the broker, and a connection of somebody who asks."""
    async with connected(broker.url) as ours, connected(broker.url) as theirs:
        with fleet(folder) as served:
            routes = await nats_routes.start_nats_routes(replace(served.service, nc=ours))
            try:
                yield served, theirs
            finally:
                await routes.stop()
                assert ours.is_connected


async def _ask(nc: Client, question: str, body: object = b"") -> Msg:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await nc.request(f"fleet.api.v1.{question}", payload, timeout=5)


async def test_questions_are_answered_as_over_http(broker: AnyBroker, tmp_path: Path) -> None:
    async with answering(broker, tmp_path) as (served, nc):
        served.registered("a.b/c", zone="z1", labels={"env": "prod"}, resources={"cpu": {"total": 8}})
        served.registered("d", zone="z2")

        for question, body, target, model in (
            ("nodes", b"", "/nodes", NodesAnswer),
            (
                "nodes",
                {"zone": "z1", "label": ["env=prod"], "limit": 1},
                "/nodes?zone=z1&limit=1",
                NodesAnswer,
            ),
            ("node", {"node_id": "a.b/c"}, "/nodes/a.b%2Fc", NodeAnswer),
            ("capacity", {"group_by": "zone"}, "/capacity?group_by=zone", CapacityAnswer),
            ("status", b"", "/status", StatusAnswer),
        ):
            reply = await _ask(nc, question, body)
            over_http = (await served.get(target)).json

            model.model_validate_json(reply.data)
            answered = strict_json(reply.data)
            assert _without_time(answered) == _without_time(over_http)
            assert reply.headers is not None
            assert reply.headers["content-type"] == "application/json"
            assert reply.headers["x-lag-ms"] == "0"


@pytest.mark.parametrize(
    ("question", "body", "status", "code"),
    [
        ("nodes", b"{", "400", "invalid_body"),
        ("nodes", b"\xff", "400", "invalid_body"),
        ("nodes", b"[1]", "400", "invalid_body"),
        ("nodes", b"null", "400", "invalid_body"),
        ("nodes", {"zoen": "z1"}, "400", "invalid_body"),
        ("nodes", {"limit": 5000}, "400", "invalid_body"),
        ("nodes", {"at": 5}, "400", "invalid_parameter"),
        ("nodes", {"cursor": "x"}, "400", "invalid_cursor"),
        ("node", b"", "400", "invalid_body"),
        ("node", {"node_id": "n" * 251}, "400", "invalid_node_id"),
        ("node", {"node_id": "nobody"}, "404", "unknown_node"),
        ("node.nobody", b"", "404", "unknown_node"),
        ("node.a%2e", b"", "400", "invalid_node_id"),
        ("node.old", b"", "410", "node_retired"),
        ("node", {"node_id": "old"}, "410", "node_retired"),
    ],
)
async def test_an_error_is_answered_as_a_problem(
    broker: AnyBroker, tmp_path: Path, *, question: str, body: object, status: str, code: str
) -> None:
    async with answering(broker, tmp_path) as (served, nc):
        served.registered("old")
        served.said("operator", "old", "retired", actor="ops")

        reply = await _ask(nc, question, body)

        problem = Problem.model_validate(strict_json(reply.data))
        assert (problem.code, problem.status) == (code, int(status))
        assert problem.instance == f"fleet.api.v1.{question}"
        assert reply.headers is not None
        assert reply.headers["Nats-Service-Error-Code"] == status
        assert reply.headers["Nats-Service-Error"] == code


async def test_a_node_is_answered_on_the_subject_of_its_token(broker: AnyBroker, tmp_path: Path) -> None:
    async with answering(broker, tmp_path) as (served, nc):
        for name in ("n1", "a.b", "a/b", "*", ">", "ü", "n" * 250):
            served.registered(name)

            reply = await _ask(nc, f"node.{token(node_id(name))}")

            assert strict_json(reply.data)["id"] == name


async def test_a_service_that_knows_nats_services_finds_us(broker: AnyBroker, tmp_path: Path) -> None:
    async with answering(broker, tmp_path) as (served, nc):
        ping = strict_json((await nc.request("$SRV.PING", b"", timeout=5)).data)
        info = strict_json((await nc.request("$SRV.INFO.fleetfold", b"", timeout=5)).data)
        served.registered("n1")
        await _ask(nc, "node.n1")
        stats = strict_json((await nc.request("$SRV.STATS.fleetfold", b"", timeout=5)).data)

    assert (ping["name"], ping["version"]) == ("fleetfold", "0.1.0")
    assert [endpoint["subject"] for endpoint in info["endpoints"]] == ["fleet.api.v1.node.*"]
    for question in nats_routes.QUESTIONS:
        assert f"fleet.api.v1.{question}" in info["metadata"]["questions"].split()
    assert stats["endpoints"][0]["num_requests"] == 1


async def test_a_page_that_no_message_can_hold_is_a_problem(broker: AnyBroker, tmp_path: Path) -> None:
    async with answering(broker, tmp_path) as (served, nc):
        for number in range(25):
            served.registered(f"n{number}", labels={f"k{n}": "v" * 1000 for n in range(50)})

        reply = await _ask(nc, "nodes", {"limit": 1000})
        smaller = await _ask(nc, "nodes", {"limit": 5})

    assert strict_json(reply.data)["code"] == "oversized"
    assert len(strict_json(smaller.data)["items"]) == 5


async def test_a_question_that_waits_holds_up_no_other(broker: AnyBroker, tmp_path: Path) -> None:
    async with answering(broker, tmp_path) as (served, nc):
        inbox = nc.new_inbox()
        waiting = await nc.subscribe(inbox)
        await nc.publish("fleet.api.v1.nodes", b'{"min_seq":1}', reply=inbox)

        at_once = await _ask(nc, "nodes")
        served.registered("n1")
        late = await waiting.next_msg(timeout=5)

    assert strict_json(at_once.data)["items"] == []
    assert len(strict_json(late.data)["items"]) == 1


async def test_after_a_stop_nobody_answers_and_the_connection_stays(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with connected(broker.url) as ours, connected(broker.url) as theirs:
        with fleet(tmp_path) as served:
            routes = await nats_routes.start_nats_routes(replace(served.service, nc=ours))
            assert (await _ask(theirs, "status")).data

            await routes.stop()
            await routes.stop()
            await ours.flush()

            for subject in ("fleet.api.v1.status", "fleet.api.v1.node.n1", "$SRV.PING.fleetfold"):
                with pytest.raises((nats.errors.NoRespondersError, nats.errors.TimeoutError)):
                    await theirs.request(subject, b"", timeout=0.5)
            assert ours.is_connected


async def test_questions_are_answered_again_once_the_broker_is_back(
    own_broker: AnyBroker, tmp_path: Path
) -> None:
    async with answering(own_broker, tmp_path) as (served, nc):
        served.registered("n1")
        own_broker.kill()
        own_broker.start()

        for question, body in (("status", b""), ("node", {"node_id": "n1"}), ("node.n1", b"")):
            assert strict_json((await _asked_until_answered(nc, question, body)).data)["as_of"]["seq"] == 1


async def test_stopping_without_a_broker_ends(own_broker: AnyBroker, tmp_path: Path) -> None:
    async with connected(own_broker.url) as ours:
        with fleet(tmp_path) as served:
            routes = await nats_routes.start_nats_routes(replace(served.service, nc=ours))
            own_broker.kill()

            async with asyncio.timeout(10):
                await routes.stop()
                await ours.close()
                await routes.stop()


async def _asked_until_answered(nc: Client, question: str, body: object) -> Msg:
    """Ask until somebody answers: connections come back one after the other."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await _ask(nc, question, body)
            except (
                nats.errors.NoRespondersError,
                nats.errors.TimeoutError,
                nats.errors.ConnectionClosedError,
            ):
                await asyncio.sleep(0.02)


async def test_two_services_share_the_questions(broker: AnyBroker, tmp_path: Path) -> None:
    async with (
        answering(broker, tmp_path / "a") as (one, nc),
        answering(broker, tmp_path / "b") as (other, _),
    ):
        one.registered("n1")
        other.registered("n1")
        inbox = nc.new_inbox()
        replies = await nc.subscribe(inbox)

        for question in ("status", "node.n1"):
            await nc.publish(f"fleet.api.v1.{question}", b"", reply=inbox)
            assert strict_json((await replies.next_msg(timeout=5)).data)["as_of"]["seq"] == 1
        await nc.flush()
        assert replies.pending_msgs == 0


def _without_time(answered: dict[str, Any]) -> dict[str, Any]:
    return {**answered, "as_of": {**answered["as_of"], "time": None}}


async def test_no_answer_becomes_a_record_of_a_stream(broker: AnyBroker, tmp_path: Path) -> None:
    async with answering(broker, tmp_path) as (served, nc):
        served.registered("n1")
        wrong = await nc.subscribe("fleet.v1.>")

        for question, body in (("status", b""), ("node", b"{"), ("node.n1", b"")):
            await nc.publish(f"fleet.api.v1.{question}", body, reply="fleet.v1.agent.n1.registered")
        for _ in range(20):
            await _ask(nc, "node", {"node_id": "n1"})  # answered by the same subscriptions, after those above
            await _ask(nc, "status")

        assert wrong.pending_msgs == 0
