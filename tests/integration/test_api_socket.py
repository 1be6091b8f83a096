"""The application behind a real HTTP server: what only a socket can show."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
import uvicorn

from tests.support.asgi import strict_json
from tests.support.fleet import Fleet, fleet

Listening = tuple[Fleet, http.client.HTTPConnection]


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    """A fleet behind uvicorn, and a connection to it."""
    with fleet(tmp_path) as served, closing(socket.create_server(("127.0.0.1", 0))) as listener:
        server = uvicorn.Server(
            uvicorn.Config(served.app, log_level="critical", loop="uvloop", http="httptools")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with closing(http.client.HTTPConnection(*listener.getsockname(), timeout=10)) as connection:
                yield served, connection
        finally:
            server.should_exit = True
            thread.join(20)
        assert not thread.is_alive()


def _get(connection: http.client.HTTPConnection, target: str) -> tuple[int, bytes]:
    connection.request("GET", target)
    got = connection.getresponse()
    return got.status, got.read()


def test_an_encoded_slash_stays_in_the_id_on_its_way_through_a_server(listening: Listening) -> None:
    served, connection = listening
    for name in ("a", "a/timeline", "a/b c/ü%2F", "..", "a?b#c"):
        served.registered(name)

        status, body = _get(connection, f"/fleet/v1/nodes/{quote(name, safe='')}")

        assert (status, strict_json(body)["id"]) == (200, name)
    status, body = _get(connection, "/fleet/v1/nodes/a/timeline")
    assert status == 200
    assert {item["cause_seq"] for item in strict_json(body)["items"]} == {1}


def test_no_target_gets_anything_but_strict_json_or_a_page(listening: Listening) -> None:
    _, connection = listening
    for target in (
        "/fleet/v1/nodes/%00", "/fleet/v1/nodes/%F0%9F%99%82?at=%00", "/fleet/v1/nodes?cursor=%FF",
        "/%FF/..//", "/fleet/v1/nodes//", "/fleet/v1/nodes/%2F%2F/timeline", "//fleet/v1/status",
        "/fleet/v1/status?" + "a=1&" * 99,
    ):  # fmt: skip
        status, body = _get(connection, target)

        assert 400 <= status < 500, target
        assert strict_json(body)["status"] == status


def test_many_questions_at_once_are_all_answered(listening: Listening) -> None:
    served, connection = listening
    for number in range(30):
        served.registered(f"n{number}", zone=f"z{number % 3}", resources={"cpu": {"total": 8}})
    address = (connection.host, connection.port)
    failed: list[object] = []

    def ask() -> None:
        with closing(http.client.HTTPConnection(*address, timeout=20)) as own:
            for target in (
                "/nodes/n1",
                "/nodes?zone=z1",
                "/capacity?group_by=zone",
                "/status",
                "/metrics",
            ) * 3:
                status, body = _get(own, f"/fleet/v1{target}")
                if status != 200:
                    failed.append((target, status, body))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
