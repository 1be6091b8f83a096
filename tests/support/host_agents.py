"""Host agents that answer the capacity probe of the dialect Fuse, over a real socket, and count the calls."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "agent-token"

PLAIN: dict[str, Any] = {
    "cpus": 16,
    "ram_mb": 65536,
    "storage_gb": 500,
    "arch": "amd64",
    "gpus": 0,
    "gpu_kind": "",
    "gpu_devices": [],
}
WITH_GPUS: dict[str, Any] = {
    "cpus": 64,
    "ram_mb": 262144,
    "storage_gb": 2000,
    "arch": "amd64",
    "gpus": 2,
    "gpu_kind": "a100",
    "gpu_devices": [{"uuid": "GPU-abc", "model": "NVIDIA A100-SXM4-40GB", "memory_mb": 40960}],
}


@dataclass
class HostAgent:
    """One agent: where it listens, and which paths it was asked for."""

    url: str
    paths: list[str] = field(default_factory=list)


@contextmanager
def host_agent(capacity: dict[str, Any]) -> Iterator[HostAgent]:
    """Answer probes with a capacity for the length of a block, for whoever brings the token."""
    made = HostAgent("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.paths.append(self.path)
            is_allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            body = json.dumps(capacity if is_allowed else {"error": "unauthorized"}).encode()
            is_known = self.path.endswith("/v1/capacity")
            self.send_response(401 if not is_allowed else 200 if is_known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def nobody_listens() -> str:
    """Return an address at which nothing answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
