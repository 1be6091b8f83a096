"""How Python's interpreter runs a process that folds and answers at once (floor 4)."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL_S = 0.0005
# Threads take turns this often at the latest; Python's own 5 ms is more than a whole answer of the API may
# take.
COLLECTED_AFTER = (100_000, 50, 1_000)
# Of the cyclic collector. A fold makes values by the ten thousand and no cycles: with the defaults
# (700, 10, 10) looking through them takes a third of the time of a replay.


def tune() -> None:
    """Set both for the whole process. Called once, when the tables are loaded and before anything is read."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*COLLECTED_AFTER)
    gc.freeze()  # what the tables held stays; it need not be looked through again
