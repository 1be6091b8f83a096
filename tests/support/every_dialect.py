"""Every dialect in one service, each with a node that speaks it, and every call of theirs that writes."""

from __future__ import annotations

from typing import Any, NamedTuple

from api.dialects.rules import AriaRules, DialectRules, FuseRules, StratumRules
from tests.support import aria_pin, stratum
from tests.support.asgi import Got
from tests.support.host_agents import TOKEN as HOST_TOKEN
from tests.support.serving import Serving
from tests.support.spoken import speak, told

MASTER, AGENT = "fuse-master-5ecre7", "aria-agent-5ecre7"
HYPERVISOR, ADMIN = "hv-agent-5ecre7", "admin-5ecre7"
RULES = DialectRules(
    fuse=FuseRules(master_token=MASTER),
    aria_pin=AriaRules(agent_tokens=(AGENT,)),
    stratum=StratumRules(agent_tokens=(HYPERVISOR,), admin_tokens=(ADMIN,)),
)
NODES, HOSTS, CARA, STRATUM = "/v1/nodes", "/v1/hosts", "/api/v1/nodes", "/v1/compute/nodes"
INFO: dict[str, Any] = {
    "id": "s1", "address": "10.0.0.11:9000", "smolvmAddress": "http://10.0.0.11:8080", "status": "ready",
    "totalCpus": 64, "availableCpus": 60, "totalMemoryMb": 1024, "availableMemoryMb": 1000,
    "totalDiskGb": 10, "availableDiskGb": 5, "labels": {"rack": "r1"}, "registeredAt": "2026-06-01T10:00:00Z",
    "usedCpus": 2.5, "usedMemoryMb": 3, "usedDiskGb": 1,
}  # fmt: skip
NODE: dict[str, Any] = {
    "apiVersion": "caravanserai/v1",
    "kind": "Node",
    "metadata": {"name": "c1", "labels": {"rack": "r1"}},
    "spec": {"hostname": "c1.local"},
}
BEAT: dict[str, Any] = {
    "state": "Ready",
    "network": {"ip": "10.0.0.12"},
    "capacity": {"cpu": "4", "memory": "8Gi", "storage": "100G"},
    "allocatable": {"cpu": "3500m", "memory": "7Gi", "storage": "90G"},
}
HOST: dict[str, Any] = {
    "id": "f1",
    "token": HOST_TOKEN,
    "labels": {"rack": "r1"},
    "capacity": {"cpus": 8, "ram_mb": 1024, "storage_gb": 10, "vm_count": 5},
}


class Said(NamedTuple):
    """One call; `token` is None where the dialect asks for none."""

    method: str
    path: str
    body: object
    token: str | None

    async def to(self, served: Serving) -> Got:
        """Make the call."""
        return await speak(served.app, self.method, self.path, self.body, token=self.token)


def registrations(agent_url: str) -> dict[str, Said]:
    """Return, by dialect, the call that a node of it comes with; Fuse's agent is asked at a URL."""
    return {
        "smolfleet": Said("POST", f"{NODES}/register", INFO, None),
        "caravanserai": Said("POST", CARA, NODE, None),
        "fuse": Said("POST", HOSTS, {**HOST, "url": agent_url}, MASTER),
        "aria-pin": Said("POST", "/v1/agent/register", {**aria_pin.AGENT, "id": "a1"}, AGENT),
        "stratum": Said("PUT", f"{STRATUM}/h1/heartbeat", stratum.BEAT, HYPERVISOR),
    }


def heartbeats() -> dict[str, Said]:
    """Return, by dialect, a heartbeat of its node; Fuse has none."""
    return {
        "smolfleet": Said("POST", f"{NODES}/s1/heartbeat", {"usedCpus": 2.5}, None),
        "caravanserai": Said("POST", f"{CARA}/c1/heartbeat", BEAT, None),
        "aria-pin": Said("POST", "/v1/agent/heartbeat", {"id": "a1", "gpus": [aria_pin.GPU]}, AGENT),
        "stratum": Said("PUT", f"{STRATUM}/h1/heartbeat", stratum.BEAT, HYPERVISOR),
    }


def reads() -> dict[str, Said]:
    """Return, by dialect, the call that shows its node."""
    return {
        "smolfleet": Said("GET", f"{NODES}/s1", None, None),
        "caravanserai": Said("GET", f"{CARA}/c1", None, None),
        "fuse": Said("GET", f"{HOSTS}/f1", None, MASTER),
        "aria-pin": Said("GET", "/v1/agents/a1", None, AGENT),
        "stratum": Said("GET", f"{STRATUM}/h1", None, ADMIN),
    }


def decisions() -> list[Said]:
    """Return every other call that writes, in an order in which all can be done; deletions come last."""
    return [
        Said("POST", f"{NODES}/s1/drain", None, None),
        Said("POST", f"{NODES}/s1/undrain", None, None),
        Said("DELETE", f"{NODES}/s1/credential", None, None),
        Said("PUT", f"{CARA}/c1", {**NODE, "spec": {"unschedulable": True}}, None),
        Said("POST", f"{HOSTS}/f1?action=cordon", None, MASTER),
        Said("POST", f"{HOSTS}/f1?action=uncordon", None, MASTER),
        Said("POST", "/v1/agents", {"id": "a2", "name": "planned"}, AGENT),
        Said("PATCH", f"{STRATUM}/h1", {"state": "maintenance", "reservedVCPUs": 9}, ADMIN),
        Said("POST", f"{STRATUM}/h1/power", {"action": "reboot"}, ADMIN),
        Said("DELETE", f"{NODES}/s1", None, None),
        Said("DELETE", f"{CARA}/c1", None, None),
        Said("DELETE", f"{HOSTS}/f1", None, MASTER),
        Said("DELETE", "/v1/agents/a1", None, AGENT),
        Said("DELETE", f"{STRATUM}/h1", None, ADMIN),
    ]


async def done(served: Serving, said: Said) -> Any:  # noqa: ANN401 (JSON)
    """Make a call that has to work; return what it says, None without a body."""
    got = await said.to(served)
    assert 200 <= got.status < 300, f"{said.method} {said.path}: {got.status} {got.body[:300]!r}"
    return told(got) if got.body else None


async def shown(served: Serving) -> dict[str, Any]:
    """Return what each dialect says of its node, by dialect."""
    return {name: await done(served, said) for name, said in reads().items()}
