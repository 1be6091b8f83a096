"""What a process says about itself (floor 4): JSON lines for programs, text for a terminal, on stderr.

Every module logs with `logging.getLogger(__name__)`; libraries' records take the same way out. Secrets never
get out: the values given here are blotted wherever they stand, and so is what stands in a field that is named
like a secret.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

import structlog

BLOT = "********"
_SECRET_NAMES = re.compile(r"token|authorization|password|secret|api_key|credential", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")
SHORTEST_SECRET = 4
# A shorter text is not searched for: blotting every "a" of the log protects nothing.


def configure(
    *, secrets: Iterable[str] = (), is_terminal: bool | None = None, level: int = logging.INFO
) -> None:
    """Send every record of this process to stderr in one form. Called once, before anything is logged."""
    terminal = sys.stderr.isatty() if is_terminal is None else is_terminal
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if terminal else "iso", utc=not terminal),
        structlog.processors.StackInfoRenderer(),
    ]
    last: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback)
        if terminal
        else structlog.processors.JSONRenderer()
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _Blotter(secrets),
                last,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy, least in _NOISY.items():
        logging.getLogger(noisy).setLevel(least)


_NOISY: Mapping[str, int] = {
    "uvicorn.error": logging.WARNING,  # "Started server process", "Waiting for application startup", …
    "uvicorn.access": logging.WARNING,
    "nats.aio.client": logging.CRITICAL,  # a traceback for each failed attempt to reconnect
    "faststream": logging.WARNING,
    "httpx": logging.WARNING,  # a line for every question to the replica
    "asyncio": logging.WARNING,
}


class _Blotter:
    """Take secrets out of a record."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({s for s in secrets if len(s) >= SHORTEST_SECRET}, key=len, reverse=True)

    def __call__(
        self, _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        for name, value in event.items():
            if _SECRET_NAMES.search(name):
                event[name] = BLOT
            elif isinstance(value, str):
                event[name] = self._text(value)
        return event

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, BLOT)
        return _URL_PASSWORD.sub(f"{BLOT}@", text)
