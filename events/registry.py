"""Event types: which type text means which owner, verb, version and data (floor 1, pure).

    fleetfold.<owner>.<verb>.v<version>      for example fleetfold.agent.registered.v1

The registry is a value, so that a test can decode with another one; `REGISTRY` is the product's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from events import facts
from events.facts import FactData
from events.subjects import Owner
from events.upcasters import UPCASTERS, Upcaster, chain

PREFIX = "fleetfold"
_TYPE = re.compile(rf"({PREFIX}\.([a-z]+)\.([a-z][a-z0-9_]*))\.v([0-9]{{1,6}})")


@dataclass(frozen=True, slots=True)
class FactType:
    """One event type in its newest version."""

    owner: Owner
    verb: str
    model: type[FactData]
    version: int = 1

    @property
    def stem(self) -> str:
        return f"{PREFIX}.{self.owner}.{self.verb}"

    @property
    def text(self) -> str:
        return f"{self.stem}.v{self.version}"


@dataclass(frozen=True, slots=True)
class TypeText:
    """A type text of ours, taken apart."""

    stem: str
    owner: str
    verb: str
    version: int


def parse_type(text: str) -> TypeText | None:
    """Return the parts of a type text, or None where it is not one of ours."""
    found = _TYPE.fullmatch(text)
    return TypeText(found[1], found[2], found[3], int(found[4])) if found else None


@dataclass(frozen=True)
class Registry:
    """Event types, found by type text, by (owner, verb) and by model. Raises ValueError where two collide."""

    types: tuple[FactType, ...]
    upcasters: tuple[Upcaster, ...] = ()
    by_text: dict[str, FactType] = field(init=False)
    by_verb: dict[tuple[str, str], FactType] = field(init=False)
    by_model: dict[type[FactData], FactType] = field(init=False)
    chains: dict[str, dict[int, Upcaster]] = field(init=False)

    def __post_init__(self) -> None:
        by_text = {fact.text: fact for fact in self.types}
        by_verb = {(fact.owner, fact.verb): fact for fact in self.types}
        by_model = {fact.model: fact for fact in self.types}
        if not len(by_text) == len(by_verb) == len(by_model) == len(self.types):
            raise ValueError("two event types share a text, a verb or a model")
        chains = {
            fact.stem: chain(self.upcasters, stem=fact.stem, newest=fact.version) for fact in self.types
        }
        object.__setattr__(self, "by_text", by_text)
        object.__setattr__(self, "by_verb", by_verb)
        object.__setattr__(self, "by_model", by_model)
        object.__setattr__(self, "chains", chains)
        strays = {upcaster.stem for upcaster in self.upcasters} - chains.keys()
        if strays:
            raise ValueError(f"upcasters of unknown types: {sorted(strays)}")


TYPES: tuple[FactType, ...] = (
    FactType("agent", "registered", facts.Registered),
    FactType("agent", "leaving", facts.Leaving),
    FactType("operator", "cordoned", facts.Cordoned),
    FactType("operator", "uncordoned", facts.Uncordoned),
    FactType("operator", "drained", facts.Drained),
    FactType("operator", "undrained", facts.Undrained),
    FactType("operator", "maintenance_entered", facts.MaintenanceEntered),
    FactType("operator", "maintenance_left", facts.MaintenanceLeft),
    FactType("operator", "retired", facts.Retired),
    FactType("operator", "restored", facts.Restored),
    FactType("operator", "labels_set", facts.LabelsSet),
    FactType("operator", "annotations_set", facts.AnnotationsSet),
    FactType("operator", "display_name_set", facts.DisplayNameSet),
    FactType("operator", "capacity_declared", facts.CapacityDeclared),
    FactType("platform", "allocated", facts.Allocated),
    FactType("platform", "released", facts.Released),
    FactType("liveness", "alive", facts.Alive),
    FactType("liveness", "lost", facts.Lost),
    FactType("liveness", "settled", facts.Settled),
    FactType("zone", "silent", facts.ZoneSilent),
    FactType("zone", "recovered", facts.ZoneRecovered),
)

REGISTRY = Registry(TYPES, UPCASTERS)
