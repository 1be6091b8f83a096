"""Documents made from the code: OpenAPI, SQL views (floor 4)."""

from __future__ import annotations
