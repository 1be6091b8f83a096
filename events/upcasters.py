"""Upcasters: how the data of an older version of an event type becomes the next version's (floor 1, pure).

An upcaster is a pure function of the data alone. It never sees the clock or another event, and it is kept for
as long as the log may hold its version, which is for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Upcaster:
    """One step: the data of `stem` in version `version` becomes the data of version `version + 1`.

    `stem` is the type without its version, such as `fleetfold.agent.registered`.
    """

    stem: str
    version: int
    lift: Callable[[Data], Data]


UPCASTERS: tuple[Upcaster, ...] = ()
"""Every step there is. Each type is still in its first version."""


def chain(upcasters: tuple[Upcaster, ...], *, stem: str, newest: int) -> dict[int, Upcaster]:
    """Return the steps of one type by the version they start from.

    Raises ValueError where two steps start from one version, or where the steps do not lead to the newest.
    """
    steps: dict[int, Upcaster] = {}
    for upcaster in upcasters:
        if upcaster.stem != stem:
            continue
        if upcaster.version in steps:
            raise ValueError(f"{stem}.v{upcaster.version} has two upcasters")
        steps[upcaster.version] = upcaster
    wanted = set(range(newest - len(steps), newest))
    if set(steps) != wanted:
        raise ValueError(f"the upcasters of {stem} start from {sorted(steps)}, wanted are {sorted(wanted)}")
    return steps


def upcast(data: Data, steps: dict[int, Upcaster], *, version: int, newest: int) -> Data:
    """Return the data as the newest version has it; `steps` comes from `chain`."""
    for at in range(version, newest):
        data = steps[at].lift(data)
    return data
