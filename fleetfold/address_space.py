"""The address space of a process that runs strangers' statements: bounded, given back, looked at (floor 4).

The engine's own memory limit does not hold for every function (a list of 10^9 elements took 8 GB of a process
limited to 1 GB), the system's limit does: the call fails with a clean error, and the process goes on.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path

ALLOCATORS: Mapping[str, str] = {
    "DUCKDB_JE_MALLOC_CONF": "retain:false,dirty_decay_ms:1000,muzzy_decay_ms:0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}
"""By default DuckDB's allocator keeps every address it ever had: nine heavy statements used 4 GB up for
good, with 0.6 GB in use, and everything failed from then on. With these, 0.45 GB were left after each, at
the same speed of ordinary statements. Arrow's own allocator reserves 1 GB at a time, the system's 64 MB for
each thread. Read when the libraries are loaded, so they have to be in the environment of the process from
its start."""

WORN_AT = 0.75
# Of the limit, with no statement running: what fragmentation has used up comes back with a new process only.


def begin_again_with_allocators() -> None:
    """Return where the process was started with `ALLOCATORS`, else become one that was, under the same id."""
    if all(os.environ.get(name) == value for name, value in ALLOCATORS.items()):
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **ALLOCATORS})


def bound(limit_bytes: int) -> None:
    """Let this process have so many bytes of addresses, from here on and for good."""
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))


def is_worn(limit_bytes: int) -> bool:
    """Tell whether so much of the limit is used up that a new process does better."""
    return used_bytes() > WORN_AT * limit_bytes


def used_bytes() -> int:
    """Return how much address space is taken; 0 where the system is not Linux and the limit has to do."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return 0
    return pages * resource.getpagesize()
