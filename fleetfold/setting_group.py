"""One level of settings below the first (floor 4)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Group(BaseModel):
    """Settings that share a first name: strict about names, frozen, and silent about values in its errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
