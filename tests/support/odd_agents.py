"""Host agents that answer oddly, over a real socket: what they do is handed in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Does = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class OddAgent:
    """One agent: where it listens, and the headers of each request. `done` lets those go that wait for it."""

    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)


@contextmanager
def odd_agent(does: Callable[[OddAgent], Does]) -> Iterator[OddAgent]:
    """Let an agent answer every request by what `does` returns, for the length of a block."""
    made = OddAgent()
    answer = does(made)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append({name.lower(): value for name, value in self.headers.items()})
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def handle(self) -> None:
            with suppress(ConnectionError):  # whoever asked has heard enough
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.done.set()
        server.shutdown()
        server.server_close()
        thread.join()


def answers(status: int, body: bytes = b"{}", **headers: str) -> Callable[[OddAgent], Does]:
    """Return what answers with a status, a body and headers (`content_length` is Content-Length)."""

    def does(_agent: OddAgent) -> Does:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            for name, value in {"content_length": str(len(body)), **headers}.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(body)

        return answer

    return does


def never_answers(agent: OddAgent) -> Does:
    """Keep every request waiting until the block ends."""
    return lambda _handler: _wait(agent)


def answers_without_end(agent: OddAgent) -> Does:
    """Send a body without an end, as fast as it is taken."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not agent.done.is_set():
            handler.wfile.write(b" " * 4096)

    return answer


def speaks_something_else(_agent: OddAgent) -> Does:
    """Answer in no HTTP."""
    return lambda handler: handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n") and None


def _wait(agent: OddAgent) -> None:
    agent.done.wait()
