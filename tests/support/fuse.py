"""Fuse as its operators speak it: the body of a host, and a service that has a master token."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from api.dialects.rules import DialectRules, FuseRules
from events.ids import node_id
from projections.state import NodeState
from tests.support.asgi import Got
from tests.support.serving import Serving
from tests.support.spoken import speak, told

MASTER, KEY = "master-token", "fuse_key_of_ci"
CAPACITY: dict[str, Any] = {"cpus": 8, "ram_mb": 16384, "storage_gb": 100, "vm_count": 10}


def fuse_rules(**more: Any) -> DialectRules:  # noqa: ANN401
    """Return rules with a master token and one API key; `more` are members of FuseRules."""
    return DialectRules(fuse=FuseRules(**{"master_token": MASTER, "api_keys": (KEY,), **more}))


def body(url: str, host: str = "h1", **changed: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what registers a host at an agent's URL, everything declared."""
    return {"id": host, "url": url, "token": "agent-token", "capacity": CAPACITY, **changed}


async def fuse(
    served: Serving,
    method: str,
    target: str,
    sent: object = None,
    *,
    token: str | None = MASTER,
    **more: Any,  # noqa: ANN401
) -> Got:
    """Ask in the dialect, as the master where nothing else is said."""
    return await speak(served.app, method, target, sent, token=token, **more)


async def register(served: Serving, url: str, host: str = "h1", **changed: Any) -> dict[str, Any]:  # noqa: ANN401
    """Register a host, and return what is said of it."""
    got = await fuse(served, "POST", "/v1/hosts", body(url, host, **changed))
    assert got.status == 201, got.body
    info: dict[str, Any] = told(got)
    return info


async def host(served: Serving, name: str = "h1") -> dict[str, Any]:
    """Return what is said of a host."""
    got = await fuse(served, "GET", f"/v1/hosts/{quote(name, safe='')}")
    assert got.status == 200, got.body
    info: dict[str, Any] = told(got)
    return info


def state_of(served: Serving, name: str = "h1") -> NodeState:
    """Return the node behind a host."""
    state = served.projection.node(node_id(f"fuse:{name}"))
    assert state is not None
    return state


def error(got: Got) -> tuple[int, str]:
    """Return status and code of a refusal in the dialect's envelope."""
    said = told(got)
    assert set(said) == {"error"}, said
    assert said["error"]["message"], said
    assert set(said["error"]) <= {"code", "message", "details"}, said
    return got.status, said["error"]["code"]
