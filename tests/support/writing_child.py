"""A process that writes beats and facts into a store and dies by SIGKILL somewhere in the middle.

    python -m tests.support.writing_child FILE SECONDS COMMITS

It prints the position after each commit, and dies when the time is over or so many are done.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from events.facts import Registered, Resource
from events.ids import NodeId
from projections.projection import Projection, ProjectionSettings
from projections.store import StoreSettings
from tests.support.beating import Beat, beats_batch, stored
from tests.support.folding import batch_of
from tests.support.strategies import placed, said

BEATS, FACTS, NODES = 60, 5, 12
"""How many records a batch has; how many nodes they are about."""


def node(seq: int) -> NodeId:
    """Return which node the record at a sequence is about."""
    return NodeId(f"n{seq % NODES}")


def die() -> None:
    """Die at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(path: Path, seconds: float, commits: int) -> None:
    """Write batches of both streams in turn until the end."""
    # A small WAL, so that the end meets checkpoints too.
    settings = ProjectionSettings(store=StoreSettings(checkpoint_at="100KB"))
    projection = Projection.open(path, settings=settings)
    at = {stream: cursor.seq for stream, cursor in projection.cursors().items()}
    beats, facts = at.get("BEATS", 0), at.get("FLEET", 0)
    threading.Timer(seconds, die).start()
    for _ in range(commits // 2):
        some = [Beat(node(seq), seq=seq, used={"cpu": seq}) for seq in range(beats + 1, beats + BEATS + 1)]
        projection.apply(beats_batch(stored(some, first=beats + 1)))
        beats += BEATS
        print("BEATS", beats, flush=True)
        log = [
            said(Registered(boot_id=f"b{seq}", seq=1, resources={"cpu": Resource(total=seq)}), node(seq))
            for seq in range(facts + 1, facts + FACTS + 1)
        ]
        projection.apply(batch_of([one._replace(seq=facts + one.seq) for one in placed(log)]))
        facts += FACTS
        print("FLEET", facts, flush=True)
    die()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
