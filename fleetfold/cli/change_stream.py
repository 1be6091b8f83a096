"""The stream of changes as the command line reads it: frames, over any number of connections (floor 4)."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from events.errors import UnreachableError
from fleetfold.cli.client import Api
from fleetfold.cli.output import visible

PATH = "/changes/stream"
QUIET_S = 45.0
# Three heartbeats of the server's that did not come.
AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: its name, the position after it, and what it says."""

    name: str
    cursor: str
    data: dict[str, Any]


def frames(api: Api, *, after: str, nodes: list[str], kinds: list[str], is_once: bool) -> Iterator[Frame]:
    """Yield frames from a position on, each once, for ever; with `is_once` to the first `caught_up`.

    A lost connection is made again and goes on exactly after the last frame. Raises UnreachableError where
    the first one cannot be had, and RefusedError for a position or a filter that is not taken.
    """
    position, failures, was_heard = "", 0, False
    while True:
        try:
            for frame in _connection(api, {"after": after, "node": nodes, "kind": kinds}, position):
                was_heard, failures = True, 0
                position = frame.cursor or position
                if not frame.name:
                    continue
                yield frame
                if is_once and frame.name == "caught_up":
                    return
            why = "the server ended the stream"
        except UnreachableError as err:
            if not was_heard:
                raise
            why = visible(str(err))
        if not failures:
            print(f"fleetfold: {why}; going on after {position or after}", file=sys.stderr)
        time.sleep(AGAIN_S[min(failures, len(AGAIN_S) - 1)] * random.uniform(0.8, 1.2))
        failures += 1


def _connection(api: Api, params: dict[str, Any], position: str) -> Iterator[Frame]:
    """Yield the frames of one connection; those without a name only move the position."""
    headers = {"Last-Event-ID": position} if position else {}
    members: dict[str, str] = {}
    for line in api.lines(PATH, params, headers=headers, quiet_s=QUIET_S):
        if line:
            name, _, value = line.partition(":")
            members[name] = value.removeprefix(" ")
            continue
        if "id" in members or "data" in members:
            data = json.loads(members["data"]) if "data" in members else {}
            yield Frame(members.get("event", "") if data else "", members.get("id", ""), data)
        members = {}
