"""Which dialects are served (floor 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.dialects import aria_pin, caravanserai, fuse, shared_paths, smolfleet, stratum

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from api.answers import Answers
    from api.dialects.calls import Dialect


def mounted(answers: Answers, metrics: Callable[[], Awaitable[bytes]]) -> tuple[Dialect, ...]:
    """Return every dialect that is served; `metrics` gives the text of the native route."""
    return (
        smolfleet.dialect(answers),
        caravanserai.dialect(answers),
        fuse.dialect(answers),
        aria_pin.dialect(answers),
        stratum.dialect(answers),
        shared_paths.dialect(answers, metrics),
    )
