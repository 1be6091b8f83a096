"""Aria PIN's calls, as its node agent makes them, over a real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from api.dialects.rules import AriaRules, DialectRules
from events.ids import node_id
from projections.state import NodeState
from tests.support.asgi import Got
from tests.support.brokers import AnyBroker
from tests.support.serving import Serving, serving
from tests.support.spoken import speak, told

TOKEN, OTHER = "agent-token", "other-token"
GPU: dict[str, Any] = {
    "index": 0,
    "model": "A100",
    "mem_total_gb": 80.0,
    "mem_used_gb": 0.0,
    "slots": 1,
    "used_slots": 0,
}
AGENT: dict[str, Any] = {
    "name": "gpu-node-01",
    "version": "1.2.0",
    "gpus": [GPU],
    "labels": ["production"],
}


@asynccontextmanager
async def aria_pin(
    broker: AnyBroker,
    folder: Path,
    *tokens: str,
    **service: Any,  # noqa: ANN401
) -> AsyncIterator[Serving]:
    """Serve with tokens of agents, two where none is named."""
    rules = DialectRules(aria_pin=AriaRules(agent_tokens=tokens or (TOKEN, OTHER)))
    async with serving(broker, folder, dialects=rules, **service) as served:
        yield served


async def register(served: Serving, *, token: str = TOKEN, **changed: object) -> Got:
    """Register as the usual agent does, but for some members; None leaves one out."""
    body = {name: value for name, value in {**AGENT, **changed}.items() if value is not None}
    return await speak(served.app, "POST", "/v1/agent/register", body, token=token)


async def registered(served: Serving, *, token: str = TOKEN, **changed: object) -> dict[str, Any]:
    """Register; return the agent."""
    got = await register(served, token=token, **changed)
    assert got.status == 200, got.body
    agent: dict[str, Any] = told(got)
    return agent


async def beat(served: Serving, *, token: str = TOKEN, **body: object) -> Got:
    """Send a heartbeat."""
    return await speak(served.app, "POST", "/v1/agent/heartbeat", body, token=token)


async def agents(served: Serving) -> list[dict[str, Any]]:
    """Return every agent."""
    listed: list[dict[str, Any]] = told(await speak(served.app, "GET", "/v1/agents", token=TOKEN))["agents"]
    return listed


def state_of(served: Serving, native_id: str) -> NodeState:
    """Return an agent's node as it is folded."""
    state = served.projection.node(node_id(f"aria-pin:{native_id}"))
    assert state is not None
    return state
