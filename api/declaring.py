"""What a patch declares of a node, as facts, none where it is so already (floor 3, pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from events.facts import (
    AnnotationsSet,
    CapacityDeclared,
    DeclaredResource,
    DisplayNameSet,
    FactData,
    LabelsSet,
)
from projections import parts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from api.said import PatchBody
    from projections.state import NodeState


def declarations(state: NodeState, asked: PatchBody, *, actor: str) -> list[FactData]:
    """Return the facts that make a node what is asked: one for each member that changes."""
    said = {"actor": actor, "reason": asked.reason, "request_id": asked.request_id or ""}
    declared = state.standing_declared
    labels = declared.labels if declared else {}
    annotations = declared.annotations if declared else {}
    facts: list[FactData] = []
    if changes := _changes(labels, asked.labels):
        facts.append(LabelsSet.model_validate({**said, "labels": changes}))
    if changes := _changes(annotations, asked.annotations):
        facts.append(AnnotationsSet.model_validate({**said, "annotations": changes}))
    if "display_name" in asked.model_fields_set:
        known = declared.display_name if declared else None
        if known != asked.display_name:
            facts.append(DisplayNameSet.model_validate({**said, "display_name": asked.display_name}))
    resources = declared.resources if declared else {}
    if reserved := _reservations(resources, asked.reservation):
        facts.append(CapacityDeclared.model_validate({**said, "resources": reserved}))
    return facts


def consequences(state: NodeState, asked: PatchBody) -> list[str]:
    """Return what follows where a label is both declared and reported, in sentences."""
    declared = state.standing_declared
    said = []
    for key, value in sorted(asked.labels.items()):
        reported = state.labels.get(key)
        if reported is None:
            continue
        if value is None and declared is not None and key in declared.labels:
            said.append(f"label {key} is {reported} again, as the agent reports it")
        elif value is None:
            said.append(
                f"label {key} stays {reported}: the agent reports it, so only the agent takes it away"
            )
        elif value != reported:
            said.append(f"label {key}={value} overrides {reported}, which the agent reports")
    return said


def _changes(known: Mapping[str, str], asked: Mapping[str, str | None]) -> dict[str, str | None]:
    return {key: value for key, value in asked.items() if known.get(key) != value}


def _reservations(
    known: Mapping[str, parts.DeclaredResource], asked: Mapping[str, Decimal | None]
) -> dict[str, Any]:
    """Return what to declare of each resource whose reservation changes; other declared numbers stay."""
    changed: dict[str, DeclaredResource | None] = {}
    for name, reserved in asked.items():
        declared = known.get(name, parts.DeclaredResource())
        if declared.reserved == reserved:
            continue
        kept = declared._replace(reserved=reserved)
        changed[name] = None if kept == parts.DeclaredResource() else DeclaredResource(**kept._asdict())
    return changed
