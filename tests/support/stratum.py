"""Stratum's calls, as its agent and its administrators make them, over a real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from api.dialects.rules import DialectRules, StratumRules
from events.ids import node_id
from projections.state import NodeState
from tests.support.asgi import Got
from tests.support.brokers import AnyBroker
from tests.support.serving import Serving, serving
from tests.support.spoken import speak, told

NODE = "stratum:hv-01"
AGENT, USER, ADMIN = "agent-token", "user-token", "admin-token"
CAPACITY: dict[str, Any] = {
    "totalVCPUs": 64,
    "reservedVCPUs": 4,
    "vcpuOvercommitRatio": 4,
    "committedVCPUs": 10,
    "totalMemoryBytes": 274877906944,
    "reservedMemoryBytes": 8589934592,
    "memoryOvercommitRatio": 1.5,
    "committedMemoryBytes": 34359738368,
    "totalDiskBytes": 2000000000000,
    "hasGPU": True,
    "hasNestedVirt": True,
    "hasSecureBoot": True,
    "hasTPM": True,
    "architecture": "amd64",
    "kvmVersion": "6.8",
    "sampledAt": "2026-04-15T12:00:00Z",
}
BEAT: dict[str, Any] = {
    "hostname": "stratum-01",
    "role": "hybrid",
    "region": "eu-1",
    "availabilityZone": "eu-1a",
    "architecture": "amd64",
    "capacity": CAPACITY,
    "capabilities": {"capability.cpu.model": "EPYC 9354", "capability.net.sriov_vfs": "8"},
}


@asynccontextmanager
async def stratum(broker: AnyBroker, folder: Path, **rules: Any) -> AsyncIterator[Serving]:  # noqa: ANN401
    """Serve with a token for each role."""
    given = {"agent_tokens": (AGENT,), "user_tokens": (USER,), "admin_tokens": (ADMIN,), **rules}
    async with serving(broker, folder, dialects=DialectRules(stratum=StratumRules(**given))) as served:
        yield served


async def beaten(served: Serving, native_id: str = "hv-01", /, **changed: object) -> dict[str, Any]:
    """Send a heartbeat that differs from the usual one; members of `capacity` may be named too."""
    capacity = {**CAPACITY, **{name: changed.pop(name) for name in tuple(changed) if name in CAPACITY}}
    body = {**BEAT, "capacity": capacity, **changed}
    body = {name: value for name, value in body.items() if value is not None}
    got = await speak(served.app, "PUT", f"/v1/compute/nodes/{native_id}/heartbeat", body, token=AGENT)
    assert got.status == 200, got.body
    record: dict[str, Any] = told(got)
    return record


async def admin(served: Serving, method: str, body: object = None, *, below: str = "") -> Got:
    """Call as an administrator."""
    return await speak(served.app, method, f"/v1/compute/nodes/hv-01{below}", body, token=ADMIN)


def state_of(served: Serving) -> NodeState:
    """Return the node as it is folded."""
    state = served.projection.node(node_id(NODE))
    assert state is not None
    return state
