"""Which version this is (floor 4)."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    """Return the installed version, or `0.0.0+source` where we run from a source tree."""
    try:
        return importlib.metadata.version("fleetfold")
    except importlib.metadata.PackageNotFoundError:
        return "0.0.0+source"
