"""What code says of itself, as Markdown: the generated parts of the documents by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fleetfold.settings_table import settings_table


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown table; a bar or a line break in a cell is made harmless."""
    lines = [head, tuple("---" for _ in head), *rows]
    cells = (" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) for line in lines)
    return "\n".join(f"| {line} |" for line in cells)


PARTS: dict[str, Callable[[], str]] = {
    "settings": settings_table,
}
