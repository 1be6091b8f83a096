"""Files that cannot be used: moved aside, never deleted; a fresh one is built from the log (floor 2)."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

log = logging.getLogger(__name__)

Word = Literal["damaged", "outdated"]
LEAST_ROOM_BYTES = 64 * 2**20
# With less left on the disk every write may fail, which says nothing about the file.


@dataclass(frozen=True, slots=True)
class Recovery:
    """Why the tables begin empty: the file there was could not be used, and lies at `aside` now."""

    word: Word
    why: str
    aside: Path


def wal_of(path: Path) -> Path:
    """Return where DuckDB keeps what is committed and not yet in the file."""
    return path.with_name(path.name + ".wal")


def spilled_of(path: Path) -> Path:
    """Return the folder into which DuckDB writes what does not fit into memory, while the file is open."""
    return path.with_name(path.name + ".tmp")


def first_line(err: Exception) -> str:
    """Return what an error of DuckDB says before it comes to details."""
    return str(err).split("\n", 1)[0]


def move_aside(path: Path, word: Word, *, why: str) -> Recovery:
    """Rename the file and its WAL to `<name>.<word>-<utc>`, so that both can be looked at together."""
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    aside = path.with_name(f"{path.name}.{word}-{moment}")
    for source, target in ((wal_of(path), wal_of(aside)), (path, aside)):
        if source.exists():
            source.rename(target)
    log.error("tables moved aside", extra={"word": word, "why": why, "aside": str(aside)})
    return Recovery(word, why, aside)


def is_held_elsewhere(path: Path) -> bool:
    """Say whether another process has the file open. Closing would end a lock of this one."""
    try:
        with path.open("rb+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def reason_outside(path: Path) -> str | None:
    """Return what is wrong around the file; None where only the file itself can be at fault."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    if path.is_dir():
        return "it is a folder"
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return f"the folder {folder} may not be written"
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        return "it may not be read and written"
    if shutil.disk_usage(folder).free < LEAST_ROOM_BYTES:
        return f"less than {LEAST_ROOM_BYTES >> 20} MiB are free on its disk"
    return None
