"""A follower of the changes over a real socket, which can be cut at any byte and goes on exactly."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

STREAM = "/fleet/v1/changes/stream"
READ_WITHIN_S = 20


@dataclass(frozen=True)
class Event:
    """A server-sent event: its id, its name, and what its data say."""

    id: str
    name: str
    data: dict[str, Any]


class Follower:
    """What was read so far, over any number of connections; `position` is the last id, "" before it."""

    def __init__(self, url: str, *, query: str = "") -> None:
        self._address = urlsplit(url)
        self._query = query
        self.position = ""
        self.events: list[Event] = []
        self.comments = 0
        self.connections = 0

    @property
    def changes(self) -> list[str]:
        """The cursors of the changes that were read, in order."""
        return [event.data["cursor"] for event in self.events if event.name == "change"]

    def read(self, *, until: str = "caught_up", most_bytes: int = 2**62) -> Event | None:
        """Read until an event of this name or with this cursor, or cut the connection after so many bytes."""
        for event in self._connection(most_bytes):
            if until in (event.name, event.data.get("cursor")):
                return event
        return None

    def _connection(self, most_bytes: int) -> Iterator[Event]:
        self.connections += 1
        host, port = self._address.hostname, self._address.port
        assert host is not None
        assert port is not None
        with socket.create_connection((host, port), timeout=READ_WITHIN_S) as link:
            last = f"Last-Event-ID: {self.position}\r\n" if self.position else ""
            ask = f"GET {STREAM}{self._query} HTTP/1.1\r\nHost: test\r\n{last}\r\n"
            link.sendall(ask.encode())
            yield from self._events(link, most_bytes)

    def _events(self, link: socket.socket, left: int) -> Iterator[Event]:
        raw, text, has_head = b"", b"", False
        while left > 0:
            data = link.recv(min(left, 65_536))
            if not data:
                return
            left -= len(data)
            raw += data
            if not has_head:
                head, found, rest = raw.partition(b"\r\n\r\n")
                if not found:
                    continue
                assert b" 200 " in head.split(b"\r\n")[0], head
                raw, has_head = rest, True
            while (chunk := _chunk(raw)) is not None:
                body, raw = chunk
                if not body:
                    return  # the last chunk is an empty one
                text += body
            while b"\n\n" in text:
                block, _, text = text.partition(b"\n\n")
                event = self._event(block.decode())
                if event is not None:
                    self.events.append(event)
                    yield event

    def _event(self, block: str) -> Event | None:
        members: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if name:
                members[name] = value.removeprefix(" ")
            else:
                self.comments += 1
        self.position = members.get("id", self.position)
        if "data" not in members:
            return None
        return Event(self.position, members["event"], json.loads(members["data"]))


def _chunk(raw: bytes) -> tuple[bytes, bytes] | None:
    """Return the first whole chunk of a chunked body, and the rest; None where there is none yet."""
    line, found, rest = raw.partition(b"\r\n")
    if not found:
        return None
    size = int(line, 16)
    return (rest[:size], rest[size + 2 :]) if len(rest) >= size + 2 else None


def after(cursor: str) -> str:
    """The query that begins after a cursor."""
    return f"?after={quote(cursor, safe='')}"
