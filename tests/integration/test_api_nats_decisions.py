"""What operators and schedulers do over NATS, on a real broker: the same as over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nats.aio.msg import Msg

from api import nats_routes
from api.change_models import BulkAnswer, ChangedNodeAnswer
from tests.support.asgi import strict_json
from tests.support.brokers import AnyBroker
from tests.support.deciding import register
from tests.support.loops import on_a_loop
from tests.support.publishing import connected
from tests.support.serving import Serving, serving


@asynccontextmanager
async def _answering(broker: AnyBroker, folder: Path) -> AsyncIterator[Serving]:
    async with serving(broker, folder) as served:
        routes = await nats_routes.start_nats_routes(served.answers.service)
        try:
            yield served
        finally:
            await routes.stop()


async def _ask(broker: AnyBroker, question: str, **body: Any) -> Msg:  # noqa: ANN401
    async with connected(broker.url) as nc:
        return await nc.request(f"fleet.api.v1.{question}", json.dumps(body).encode(), timeout=10)


@on_a_loop
async def test_decisions_are_taken_as_over_http(broker: AnyBroker, tmp_path: Path) -> None:
    async with _answering(broker, tmp_path) as served:
        await register(served, "n1", labels={"env": "dev"})

        held = await _ask(broker, "action", node_id="n1", action="cordon", reason="disk", actor="ada")
        answer = ChangedNodeAnswer.model_validate_json(held.data)
        assert (answer.state, answer.holds[0].actor) == ("cordoned", "ada")
        assert answer.change.facts == [2]

        patched = await _ask(broker, "patch", node_id="n1", labels={"env": "prod"}, version=2)
        assert strict_json(patched.data)["labels"] == {"env": "prod"}

        given = await _ask(
            broker, "allocate", node_id="n1", workload="vm-1", dialect="fuse", amounts={"cpus": 2}
        )
        assert strict_json(given.data)["allocations"][0]["amounts"] == {"cpu": 2}

        freed = await _ask(broker, "release", node_id="n1", workload="vm-1")
        assert strict_json(freed.data)["allocations"] == []

        many = await _ask(broker, "actions", action="uncordon", selector={"all": True})
        assert BulkAnswer.model_validate_json(many.data).counts == {"done": 1}
        assert await served.fleet_seq() == 6


@on_a_loop
async def test_a_refusal_is_a_problem_with_the_status_of_http(broker: AnyBroker, tmp_path: Path) -> None:
    async with _answering(broker, tmp_path) as served:
        await register(served, "n1")

        for question, body, status, code in (
            ("action", {"node_id": "n1", "action": "cordon"}, 400, "invalid_body"),
            ("action", {"node_id": "n1", "action": "knight", "reason": "x"}, 400, "invalid_body"),
            ("action", {"node_id": "nobody", "action": "cordon", "reason": "x"}, 404, "unknown_node"),
            ("actions", {"action": "cordon", "reason": "x", "selector": {}}, 400, "invalid_body"),
            ("patch", {"node_id": "n1", "labels": {"a": "b"}, "version": 7}, 412, "version_conflict"),
            ("patch", {"node_id": "n1", "hostname": "h"}, 400, "invalid_body"),
            ("allocate", {"node_id": "n1", "workload": "", "amounts": {}}, 400, "invalid_parameter"),
            ("allocate", {"node_id": "n1", "amounts": {}}, 400, "invalid_body"),
            ("release", {"node_id": "nobody", "workload": "w"}, 404, "unknown_node"),
        ):
            reply = await _ask(broker, question, **body)

            problem = strict_json(reply.data)
            assert (problem["status"], problem["code"]) == (status, code), (question, body, problem)
            assert reply.headers is not None
            assert reply.headers["Nats-Service-Error-Code"] == str(status)
        assert await served.fleet_seq() == 1
