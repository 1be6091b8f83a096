"""Arrow's arrays, types and functions, of which the stubs of pyarrow know a part only (floor 3, pure)."""

from __future__ import annotations

from typing import Any

import pyarrow.compute

Array = Any
DataType = Any
pc: Any = pyarrow.compute
