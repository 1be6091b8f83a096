"""A process that folds a log and dies by SIGKILL at one step.

    python -m tests.support.crashing URL FILE POINT NTH

The faults are made here, around the product's own functions; the product knows nothing of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvloop

import projections.ahead
import projections.commits
import projections.projection
from consumers.following import StreamPlan
from projections.memory import Memory
from projections.projection import Projection
from projections.store import Store
from tests.support.projecting import at_work

SMALL_BATCHES = (StreamPlan("FLEET", batch=20, linger_s=0.01), StreamPlan("BEATS", batch=100, linger_s=0.01))
POINTS = (
    "before decode",
    "after fold",
    "in the transaction",
    "before commit",
    "after commit",
    "before it is shown",
    "after it is shown",
    "after apply",
)
"""Every step between the arrival of a batch and the next one."""


class Fuse:
    """Kills this process when it is burnt for the nth time."""

    def __init__(self, nth: int) -> None:
        self._left = nth

    def burn(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, fuse: Fuse) -> None:  # noqa: ANN401 (a class or a module)
    """Make a function burn the fuse, then work."""
    work: Callable[..., Any] = getattr(owner, name)

    def changed(*args: object, **kwargs: object) -> object:
        fuse.burn()
        return work(*args, **kwargs)

    setattr(owner, name, changed)


def after(owner: Any, name: str, fuse: Fuse) -> None:  # noqa: ANN401 (a class or a module)
    """Make a function work, then burn the fuse."""
    work: Callable[..., Any] = getattr(owner, name)

    def changed(*args: object, **kwargs: object) -> object:
        result = work(*args, **kwargs)
        fuse.burn()
        return result

    setattr(owner, name, changed)


def around_commit(fuse: Fuse, *, is_after: bool) -> None:
    """Burn the fuse when a transaction has all its rows, before or after it is committed."""
    work = Store.transaction

    @contextlib.contextmanager
    def changed(self: Store) -> Iterator[Any]:
        with work(self) as transaction:
            yield transaction
            if not is_after:
                fuse.burn()
        if is_after:
            fuse.burn()

    Store.transaction = changed  # type: ignore[method-assign]


def arm(point: str, nth: int) -> None:
    """Lay the fuse at a step; both streams pass it."""
    fuse = Fuse(nth)
    match point:
        case "before decode":
            before(Projection, "apply", fuse)
        case "after fold":
            after(projections.ahead, "fold_facts", fuse)
            after(projections.projection, "fold_beat_batch", fuse)
        case "in the transaction":
            before(projections.commits, "save_checkpoint", fuse)
        case "before commit":
            around_commit(fuse, is_after=False)
        case "after commit":
            around_commit(fuse, is_after=True)
        case "before it is shown":
            before(Memory, "show_facts", fuse)
            before(Memory, "show_beats", fuse)
        case "after it is shown":
            after(Memory, "show_facts", fuse)
            after(Memory, "show_beats", fuse)
        case "after apply":
            after(Projection, "apply", fuse)
        case _:
            raise ValueError(point)


async def fold(url: str, path: Path) -> None:
    """Fold until somebody, most likely ourselves, ends this process."""
    projection = Projection.open(path)
    async with at_work(url, projection, plans=SMALL_BATCHES) as projector:
        print("folding", flush=True)
        await projector.wait_for("FLEET", sys.maxsize, timeout_s=60)


if __name__ == "__main__":
    arm(sys.argv[3], int(sys.argv[4]))
    uvloop.run(fold(sys.argv[1], Path(sys.argv[2])))
