"""One statement of an analyst: what is asked, within which limits, and what came of it (floor 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """What one statement, and all of them together, may take."""

    timeout_s: float = 30.0
    max_rows: int = 1_000_000
    default_rows: int = 100_000
    max_bytes: int = 64 * 1024 * 1024
    memory_bytes: int = 1024 * 1024 * 1024
    spill_bytes: int = 2 * 1024 * 1024 * 1024
    running: int = 2
    waiting: int = 8


@dataclass(frozen=True, slots=True)
class Statement:
    """What an analyst asks for; the limits asked for are within those of the replica."""

    sql: str
    parameters: Mapping[str, Any] | list[Any] | None = None
    max_rows: int = 100_000
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result: its name, and its type as the engine spells it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class SqlResult:
    """Rows in plain Arrow types, perhaps not all: `truncated_by` is "" or the limit that was reached.

    `checked` is called between parts of the answer as it is written: it raises where the time is up.
    """

    columns: tuple[ResultColumn, ...]
    table: pa.Table
    as_of: dict[str, Any]
    truncated_by: str = ""
    limits: dict[str, int] = field(default_factory=dict)
    elapsed_ms: int = 0
    checked: Callable[[], None] = lambda: None

    def truncation(self) -> dict[str, Any]:
        """Return what a caller has to know of a result that was cut, and how the rest is had."""
        more = f", or raise max_rows (up to {self.limits['max_rows']})" if self.truncated_by == "rows" else ""
        return {
            "by": self.truncated_by,
            "limits": self.limits,
            "next": f"ORDER BY a key and ask again WHERE the key is beyond the last one returned{more}",
        }


@dataclass(eq=False, slots=True)
class Call:
    """One statement on its way; `cancel` may be called at any time and from any thread."""

    is_cancelled: bool = False
    stop: Callable[[], None] | None = None

    def cancel(self) -> None:
        """Stop it, because its caller went away."""
        self.is_cancelled = True
        if self.stop is not None:
            self.stop()
