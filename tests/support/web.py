"""An application behind a real server on a free port, in a thread and loop of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from tests.support.waiting import wait_until


@contextmanager
def serving(app: ASGIApp, *, path: str = "") -> Iterator[str]:
    """Give the address at which the application answers: a free port, or the Unix socket at `path`."""
    with socket.socket(socket.AF_UNIX if path else socket.AF_INET) as listener:
        listener.bind(path or ("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(
                app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started, what="the server")
        try:
            yield f"unix:{path}" if path else f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            thread.join(10)
