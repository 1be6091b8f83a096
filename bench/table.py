"""A table for people, printed a line at a time as its figures come."""

from __future__ import annotations


class Table:
    """Columns with a name and a format each; the first one is left-aligned text."""

    def __init__(self, *columns: tuple[str, str]) -> None:
        self._formats = [form for _, form in columns]
        self._widths = [max(len(name), 30 if at == 0 else 10) for at, (name, _) in enumerate(columns)]
        self._print([name for name, _ in columns])

    def row(self, *values: object) -> None:
        """Print one line; None is a dash."""
        self._print(
            [
                "-" if value is None else format(value, form)
                for value, form in zip(values, self._formats, strict=True)
            ]
        )

    def _print(self, cells: list[str]) -> None:
        first, *rest = zip(cells, self._widths, strict=True)
        line = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
        print("  ".join(line).rstrip(), flush=True)
