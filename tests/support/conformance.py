"""One conformance case: settings, steps and hooks, one request, and what is expected of its answer."""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from events.ids import node_id
from fleetfold.settings import ENV_PREFIX
from tests.support.asgi import Got, ask
from tests.support.host_agents import PLAIN, WITH_GPUS, HostAgent, host_agent, nobody_listens
from tests.support.matching import NOTHING, fits, picked
from tests.support.serving import Serving
from tests.support.waiting import until

Case = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[1] / "conformance"
FILES = ("cases.jsonl", "own_cases.jsonl")
"""The cases as they were given to us, and those that we added."""
ADMIN_TOKEN = "native-admin-token"
TOKENS = {
    "FUSE_MASTER": "master-token",
    "FUSE_APIKEY": "fuse_key_0123456789",
    "ARIA_TOKEN": "aria-agent-token",
    "STRATUM_AGENT": "stratum-agent-token",
    "STRATUM_USER": "stratum-user-token",
    "STRATUM_ADMIN": "stratum-admin-token",
    "REGION_DEFAULT": "region-default",
    "AZ_DEFAULT": "az-default",
}
ENVIRONMENT = {
    "FUSE__MASTER_TOKEN": TOKENS["FUSE_MASTER"],
    "FUSE__API_KEYS": json.dumps([TOKENS["FUSE_APIKEY"]]),
    "ARIA__AGENT_TOKENS": json.dumps([TOKENS["ARIA_TOKEN"]]),
    "STRATUM__AGENT_TOKENS": json.dumps([TOKENS["STRATUM_AGENT"]]),
    "STRATUM__USER_TOKENS": json.dumps([TOKENS["STRATUM_USER"]]),
    "STRATUM__ADMIN_TOKENS": json.dumps([TOKENS["STRATUM_ADMIN"]]),
    "STRATUM__DEFAULT_REGION": TOKENS["REGION_DEFAULT"],
    "STRATUM__DEFAULT_AVAILABILITY_ZONE": TOKENS["AZ_DEFAULT"],
    "ADMIN_TOKEN": ADMIN_TOKEN,
}
PROFILE = "FUSE__REREGISTER"
QUICK = {"LIVENESS__INTERVAL_S": "0.5", "LIVENESS__GRACE_S": "1.5"}
"""The pace of a case that waits until a node is lost."""


def cases() -> list[Case]:
    """Return every case."""
    lines = [line for name in FILES for line in (FOLDER / name).read_text("utf-8").splitlines()]
    return [json.loads(line) for line in lines if line.strip()]


def environment(case: Case) -> dict[str, str]:
    """Return the settings that a case runs with, as environment variables."""
    given = dict(ENVIRONMENT)
    for name, value in case.get("config", {}).items():
        text = value if isinstance(value, str) else json.dumps(value)
        given[name.replace(".", "__").upper()] = "" if value is None or value is False else text
    if "profile" in case:
        given[PROFILE] = case["profile"]
    if any(step.get("op") == "expire_liveness" for step in case.get("setup", [])):
        given |= QUICK
    return {ENV_PREFIX + name: text for name, text in given.items()}


@dataclass
class Places:
    """What the placeholders of cases stand for, and the host agents behind some of them."""

    agents: tuple[HostAgent, HostAgent]
    texts: dict[str, str]

    def filled(self, value: Any) -> Any:  # noqa: ANN401
        """Return a part of a case with its placeholders replaced."""
        match value:
            case str():
                return re.sub(r"\{\{(\w+)\}\}", lambda name: self.texts.get(name[1], name[0]), value)
            case dict():
                return {self.filled(name): self.filled(member) for name, member in value.items()}
            case list():
                return [self.filled(member) for member in value]
        return value

    def probes(self) -> int:
        """Return how often the agents were asked."""
        return sum(len(agent.paths) for agent in self.agents)


class HostAgents(AbstractContextManager["Places"]):
    """The host agents of the cases, for the length of a block."""

    def __enter__(self) -> Places:
        with ExitStack() as stack:
            plain = stack.enter_context(host_agent(PLAIN))
            with_gpus = stack.enter_context(host_agent(WITH_GPUS))
            self._closing = stack.pop_all()
        urls = {"AGENT_OK": plain.url, "AGENT_GPU": with_gpus.url, "AGENT_DOWN": nobody_listens()}
        return Places((plain, with_gpus), TOKENS | urls)

    def __exit__(self, *_: object) -> None:
        self._closing.close()


class Run:
    """One case against one application whose store is empty."""

    def __init__(self, served: Serving, places: Places) -> None:
        self._served, self._places = served, places
        self._saved: dict[str, Any] = {}

    async def run(self, case: Case) -> None:
        """Do the steps and the request; fail where the answer is another one than expected."""
        probes = self._places.probes()
        for step in self._places.filled(case.get("setup", [])):
            await self._step(step)
        path = self._places.filled(case["path"])
        for name, value in self._saved.items():
            path = path.replace("{{" + name + "}}", str(value))
        text = case.get("raw_body") or _text(self._places.filled(case["body"]))
        got = await self._ask(case["method"], path, self._places.filled(case["headers"]), text)
        wanted = {case["expect_status"], *case.get("accept_status", [])}
        assert got.status in wanted, f"{got.status} {got.body[:300]!r}"
        if case["expect"]:
            fits(self._places.filled(case["expect"]), json.loads(got.body), self._saved)
        for name, value in case.get("expect_headers", {}).items():
            fits(value, got.headers.get(name.lower(), NOTHING), self._saved, f"header {name}")
        if "expect_text" in case:
            assert got.body.decode().strip() == case["expect_text"]
        if "expect_probe_calls" in case:
            assert self._places.probes() - probes == case["expect_probe_calls"]
        if "expect_log" in case:
            await self._check_log(case["expect_log"])

    async def _step(self, step: dict[str, Any]) -> None:
        if "op" in step:
            await self._hook(step)
            return
        got = await self._ask(step["method"], step["path"], step.get("headers", {}), _text(step.get("body")))
        if "expect_status" in step:
            assert got.status == step["expect_status"], got.body[:300]
        for name, path in step.get("save", {}).items():
            self._saved[name] = picked(json.loads(got.body), path)

    async def _hook(self, op: dict[str, Any]) -> None:
        match op["op"]:
            case "allocate":
                given = {
                    name: value
                    for name, value in op.items()
                    if name not in ("op", "system", "id", "workload", "capabilities")
                }
                body = {"dialect": op["system"], "amounts": given | op.get("capabilities", {})}
                path = f"/nodes/{await self._node(op)}/allocations/{op['workload']}"
                await self._native("PUT", path, body, (200, 201))
            case "precreate":
                await self._speak(
                    "POST", "/v1/agents", "ARIA_TOKEN", {"id": op["id"], "name": op["name"]}, (200, 201)
                )
            case "set_admin_state":
                action = {"action": "enter_maintenance", "reason": "conformance"}
                await self._native("POST", f"/nodes/{await self._node(op)}/actions", action, (200, 202))
            case "declare_label":
                labels = {"labels": {op["key"]: op["value"]}}
                await self._native("PATCH", f"/nodes/{await self._node(op)}", labels, (200,))
            case "power_action":
                path = f"/v1/compute/nodes/{op['id']}/power"
                await self._speak("POST", path, "STRATUM_ADMIN", {"action": op["action"]}, (202,))
            case "expire_liveness":
                node = node_id(unquote(await self._node(op)))

                def is_lost() -> bool:
                    state = self._served.projection.node(node)
                    return state is not None and state.liveness == "lost"

                await until(is_lost, what=f"{node} is lost")
            case "mark_log":
                self._saved[op["save"]] = (await self._native("GET", "/status", None, (200,)))["fleet_seq"]
            case other:
                raise ValueError(f"{other} is no hook")

    async def _check_log(self, expected: dict[str, Any]) -> None:
        if "since" in expected:
            seq = (await self._native("GET", "/status", None, (200,)))["fleet_seq"]
            assert seq - self._saved[expected["since"]] == expected["fact_events"]
            return
        changes = (await self._native("GET", "/changes?limit=1000", None, (200,)))["items"]
        assert any("overrid" in json.dumps(change) for change in changes), changes

    async def _node(self, op: dict[str, Any]) -> str:
        """Return the id of the node behind a dialect's id or name, as it is written in a path."""
        wanted = {name: op[key] for name, key in (("native_id", "id"), ("name", "name")) if op.get(key)}
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in wanted.items())
        items = (await self._native("GET", f"/nodes?dialect={op['system']}&{query}", None, (200,)))["items"]
        assert len(items) == 1, f"one node fits {wanted}, found {items}"
        return quote(items[0]["id"], safe="")

    async def _native(self, method: str, path: str, body: object, statuses: tuple[int, ...]) -> Any:  # noqa: ANN401
        headers = {"authorization": f"Bearer {ADMIN_TOKEN}", "content-type": "application/json"}
        got = await self._ask(method, f"/fleet/v1{path}", headers, _text(body))
        assert got.status in statuses, f"{method} {path}: {got.status} {got.body[:300]!r}"
        return json.loads(got.body) if got.body else None

    async def _speak(
        self, method: str, path: str, token: str, body: object, statuses: tuple[int, ...]
    ) -> None:
        headers = {"authorization": f"Bearer {TOKENS[token]}", "content-type": "application/json"}
        got = await self._ask(method, path, headers, _text(body))
        assert got.status in statuses, f"{method} {path}: {got.status} {got.body[:300]!r}"

    async def _ask(self, method: str, path: str, headers: dict[str, str], text: str | None) -> Got:
        body = b"" if text is None else text.encode()
        return await ask(self._served.app, path, method=method, headers=headers, body=body)


def _text(body: object) -> str | None:
    return None if body is None else json.dumps(body)
