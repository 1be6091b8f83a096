"""The client that Fuse's makers publish, unmodified, against a socket: what it needs, it gets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import fuse
import pytest
import uvicorn
from fuse.errors import ApiError
from fuse.types import HostCapacity, RegisterHostRequest

from events.facts import Allocated, Released
from tests.support.brokers import AnyBroker
from tests.support.facts_said import say
from tests.support.fuse import KEY, MASTER, fuse_rules
from tests.support.host_agents import PLAIN, TOKEN, host_agent
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving
from tests.support.waiting import until


@asynccontextmanager
async def _listening(served: Serving) -> AsyncIterator[str]:
    """Serve an application on a free port, on this loop; give its address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        config = uvicorn.Config(served.app, log_level="critical", http="httptools", lifespan="off")
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await until(lambda: server.started, what="the server listens")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


def _request(url: str, name: str, **capacity: int) -> RegisterHostRequest:
    return RegisterHostRequest(id=name, url=url, token=TOKEN, capacity=HostCapacity(vm_count=20, **capacity))


def _drive(api: str, agent: str) -> None:
    """Do everything that an operator does with hosts."""
    with fuse.Client(api, MASTER) as client:
        made = client.hosts.register(_request(agent, "prod-east-1"))
        assert (made.id, made.state, made.backend, made.url) == (
            "prod-east-1",
            "active",
            "firecracker",
            agent,
        )
        assert (made.capacity.cpus, made.capacity.ram_mb, made.capacity.vm_count) == (16, 65536, 20)
        assert made.capacity.arch == "amd64"
        assert made.created_at is not None
        for name in ("prod-east-2", "a/b c"):
            client.hosts.register(_request(agent, name, cpus=32))
        over = client.hosts.register(_request(agent, "prod-east-2", cpus=64))
        assert over.warnings == ["declared cpus (64) exceeds probed host capacity (16)"]

        assert [one.id for one in client.hosts.list()] == ["a/b c", "prod-east-1", "prod-east-2"]
        page = client.hosts.list_page(limit=2)
        rest = client.hosts.list_page(limit=2, cursor=page.next_cursor or "")
        assert [[one.id for one in found.hosts] for found in (page, rest)] == [
            ["a/b c", "prod-east-1"],
            ["prod-east-2"],
        ]
        assert rest.next_cursor is None

        client.hosts.cordon("a/b c")
        assert client.hosts.get("a/b c").state == "cordoned"
        kept = client.hosts.register(_request(agent, "a/b c", cpus=32))
        assert (kept.state, kept.created_at) == ("cordoned", client.hosts.get("a/b c").created_at)
        client.hosts.uncordon("a/b c")
        assert client.hosts.get("a/b c").state == "active"
        client.hosts.deregister("a/b c")
        with pytest.raises(ApiError) as gone:
            client.hosts.get("a/b c")
        assert (gone.value.status, gone.value.code, gone.value.request_id[:4]) == (404, "not_found", "req_")

        with pytest.raises(ApiError) as refused:
            client.hosts.register(_request(f"{agent}?x=1", "odd"))
        assert (refused.value.status, refused.value.code) == (400, "invalid_argument")
        with pytest.raises(ApiError) as rejected:
            client.hosts.register(_request(agent, "odd").model_copy(update={"token": "wrong"}))
        assert (rejected.value.status, rejected.value.code) == (502, "unauthorized")

        key = client.api_keys.create("ci")
        with fuse.Client(api, key.key) as reader:
            assert len(reader.hosts.list()) == 2
            with pytest.raises(ApiError) as forbidden:
                reader.hosts.cordon("prod-east-1")
        assert (forbidden.value.status, forbidden.value.code) == (403, "unauthorized")
        client.api_keys.revoke(key.id)
        assert [one.revoked_at is not None for one in client.api_keys.list()] == [True]
    with fuse.Client(api) as nobody, pytest.raises(ApiError) as unknown:
        nobody.hosts.list()
    assert (unknown.value.status, unknown.value.code) == (401, "unauthorized")


def _deregister_held(api: str) -> None:
    with fuse.Client(api, MASTER) as client, pytest.raises(ApiError) as held:
        client.hosts.deregister("prod-east-1")
    assert (held.value.code, held.value.message) == (
        "conflict",
        "host prod-east-1 still has vm vm-1 assigned",
    )


def _leave(api: str) -> None:
    with fuse.Client(api, MASTER) as client:
        client.hosts.deregister("prod-east-1")
    with fuse.Client(api, KEY) as reader:
        assert [one.id for one in reader.hosts.list()] == ["prod-east-2"]


@on_a_loop
async def test_the_published_client_does_all_that_it_can_do_with_hosts(
    broker: AnyBroker, tmp_path: Path
) -> None:
    with host_agent(PLAIN) as agent:
        async with serving(broker, tmp_path, dialects=fuse_rules()) as served, _listening(served) as api:
            await asyncio.to_thread(_drive, api, agent.url)
            await say(served, "fuse:prod-east-1", Allocated(workload="vm-1"))
            await asyncio.to_thread(_deregister_held, api)
            await say(served, "fuse:prod-east-1", Released(workload="vm-1"))
            await asyncio.to_thread(_leave, api)
