"""smolfleet, as its agents speak it, over a real broker: the life of a node, and who may change what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.asgi import Got
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving
from tests.support.spoken import speak, told

INFO: dict[str, Any] = {
    "id": "node-a",
    "address": "10.0.0.11:9000",
    "smolvmAddress": "http://10.0.0.11:8080",
    "status": "ready",
    "totalCpus": 64,
    "availableCpus": 60,
    "totalMemoryMb": 262144,
    "availableMemoryMb": 250000,
    "totalDiskGb": 2000,
    "availableDiskGb": 1500,
    "labels": {"arch": "amd64"},
    "registeredAt": "2026-06-01T10:00:00Z",
}


async def _register(served: Serving, **changed: object) -> Got:
    got = await speak(served.app, "POST", "/v1/nodes/register", {**INFO, **changed})
    assert got.status == 200, got.body
    return got


@on_a_loop
async def test_a_node_lives_from_registration_to_deletion(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        registered = told(await _register(served, lastHeartbeatAt=None))
        beat = await speak(served.app, "POST", "/v1/nodes/node-a/heartbeat")
        drained = await speak(served.app, "POST", "/v1/nodes/node-a/drain")
        again = told(await _register(served, status="ready", registeredAt="2026-09-09T00:00:00Z"))
        undrained = await speak(served.app, "POST", "/v1/nodes/node-a/undrain")
        deleted = await speak(served.app, "DELETE", "/v1/nodes/node-a")
        gone = await speak(served.app, "GET", "/v1/nodes/node-a")
        back = told(await _register(served, registeredAt="2026-10-10T00:00:00Z"))
        state = served.projection.node(served_id())

    assert registered == {**INFO, "lastHeartbeatAt": None, "runtime": "smolvm"}
    assert (beat.status, told(beat)["status"]) == (200, "ready")
    assert told(beat)["lastHeartbeatAt"].endswith("Z")
    assert (drained.status, told(drained)["status"]) == (200, "draining")
    assert (again["status"], again["registeredAt"]) == ("draining", INFO["registeredAt"])
    assert told(undrained)["status"] == "ready"
    assert (deleted.status, deleted.body) == (204, b"")
    assert (gone.status, told(gone)["code"]) == (404, "missing")
    assert (back["registeredAt"], back["lastHeartbeatAt"]) == ("2026-10-10T00:00:00Z", None)
    assert state is not None
    assert (state.incarnation, state.boot_id) == (2, "smolfleet-2")


def served_id() -> Any:  # noqa: ANN401
    from events.ids import node_id

    return node_id("smolfleet:node-a")
