"""Every native route that writes, with the one writer that they share (floor 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api import actions, allocations, bulk, node_patch
from api.writing import Writer

if TYPE_CHECKING:
    from fastapi import APIRouter

    from api.answers import Answers

SOURCE = "/api"
"""What a fact that came through these routes names as its source."""


def routers(answers: Answers) -> list[APIRouter]:
    """Return the routes of operators and schedulers."""
    writer = Writer(answers, source=SOURCE)
    return [part.router(answers, writer) for part in (actions, bulk, node_patch, allocations)]
