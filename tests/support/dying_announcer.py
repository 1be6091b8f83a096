"""A process that folds a log, announces it, and dies by SIGKILL at one step.

    python -m tests.support.dying_announcer URL FILE POINT NTH

The faults are made here, around the product's own functions; the product knows nothing of them.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import uvloop

import consumers.announcer
import consumers.announcing
import consumers.changes_stream
from projections.projection import Projection
from tests.support.announcing import announcing
from tests.support.crashing import SMALL_BATCHES, Fuse, before
from tests.support.projecting import at_work

PAGE = 30
"""Announcements at a time, so that there are many steps."""

POINTS = (
    "before the place is found",
    "after the place is found",
    "before another log is announced",
    "before a page is read",
    "before a batch",
    "inside a batch",
    "before the last of a batch",
    "after a batch",
    "after another log is announced",
)
"""Every step between the start and the next batch."""


def async_after(owner: Any, name: str, fuse: Fuse) -> None:  # noqa: ANN401 (a class or a module)
    """Make a coroutine function work, then burn the fuse."""
    work = getattr(owner, name)

    async def changed(*args: object, **kwargs: object) -> object:
        result = await work(*args, **kwargs)
        fuse.burn()
        return result

    setattr(owner, name, changed)


def arm(point: str, nth: int) -> None:
    """Lay the fuse at a step."""
    fuse = Fuse(nth)
    announcer, announcing_, stream = consumers.announcer, consumers.announcing, consumers.changes_stream
    match point:
        case "before the place is found":
            before(announcer, "find_place", fuse)
        case "after the place is found":
            async_after(announcer, "find_place", fuse)
        case "before another log is announced":
            before(announcing_, "append_changes", fuse)
        case "after another log is announced":
            async_after(announcing_, "append_changes", fuse)
        case "before a page is read":
            before(announcer, "changes", fuse)
        case "before a batch":
            before(announcer, "append_changes", fuse)
        case "inside a batch":
            before(stream, "send", fuse)
        case "before the last of a batch":
            before(stream, "request", fuse)
        case "after a batch":
            async_after(announcer, "append_changes", fuse)
        case _:
            raise ValueError(point)


async def announce(url: str, path: Path) -> None:
    """Fold and announce until somebody, most likely ourselves, ends this process."""
    consumers.announcer.PAGE = PAGE
    projection = Projection.open(path)
    async with at_work(url, projection, plans=SMALL_BATCHES), announcing(url, projection):
        print("announcing", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    arm(sys.argv[3], int(sys.argv[4]))
    uvloop.run(announce(sys.argv[1], Path(sys.argv[2])))
