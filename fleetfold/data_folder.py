"""The data folder: who owns it, and where what lies in it (floor 4).

<data>/lock              held by the process that uses the folder
<data>/broker/           the embedded broker: its store, configuration and log
<data>/fleetfold.duckdb  the tables of the core process
<data>/replica/          the tables of the SQL replica
<data>/secrets.sqlite3   what may not be in the log; for its owner alone, and no part of a rebuild
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from events.errors import RefusedError


class DataFolder:
    """One folder, held by one process at a time. The hold ends with the process, however that ends."""

    def __init__(self, root: Path) -> None:
        """Take the folder; it is made where it is missing, and held by `hold` only."""
        self.root = root.expanduser().absolute()
        self._lock: IO[str] | None = None

    @property
    def broker(self) -> Path:
        """Return the embedded broker's folder."""
        return self.root / "broker"

    @property
    def tables(self) -> Path:
        """Return the DuckDB file of this process."""
        return self.root / "fleetfold.duckdb"

    @property
    def replica(self) -> Path:
        """Return the folder of the SQL replica."""
        return self.root / "replica"

    @property
    def secrets(self) -> Path:
        """Return the file of secrets, which is made with the first one."""
        return self.root / "secrets.sqlite3"

    def hold(self) -> None:
        """Take the folder for this process; RefusedError where it cannot be used or another holds it."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = (self.root / "lock").open("a+", encoding="ascii")
        except OSError as err:
            raise RefusedError(
                "data_folder_unusable",
                f"{self.root} cannot be used ({err.strerror})",
                instead="choose a folder that this user may write with --data",
            ) from err
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            lock.seek(0)
            holder = lock.read().strip()
            lock.close()
            raise RefusedError(
                "data_folder_in_use",
                f"{self.root} is in use" + (f" by process {holder}" if holder else ""),
                instead="stop that one, or choose another folder with --data (--ephemeral: a throw-away one)",
            ) from err
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def release(self) -> None:
        """Let the folder go. Doing so twice is fine."""
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()
            self._lock = None
