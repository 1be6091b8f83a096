"""Markdown made from values."""

from __future__ import annotations

from collections.abc import Iterable


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; a bar or a line break in a cell is made harmless."""
    lines = [head, tuple("---" for _ in head), *rows]
    cells = (" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) for line in lines)
    return "\n".join(f"| {line} |" for line in cells)
