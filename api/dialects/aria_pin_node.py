"""Aria PIN's agent: read from bodies, made a report, shown from the projection (floor 3, pure).

What a registration leaves out was not reported and stays as it is known. `status` is ours to say: an agent's
own word is kept beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from api.dialects.aria_pin_gpus import (
    GPUS,
    Gpu,
    device,
    findings,
    is_same,
    kept_gpus,
    key,
    ordered,
    read_gpus,
    resources,
    shown_gpus,
    spelled,
)
from api.dialects.reading import Members
from api.dialects.registration import Report, attributes
from projections.derive import LOST, OPEN, derive

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from projections.heartbeats import Heartbeat
    from projections.state import NodeState

ONLINE, OFFLINE, MAINTENANCE, PENDING = "online", "offline", "maintenance", "pending"
PLANNED = "aria-pin/planned"
"""The annotation of a row that somebody created before its agent registered."""

_TEXT = {"type": "string"}
_NAME = {"type": "string", "minLength": 1}
REGISTRATION: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "id": _TEXT, "name": _NAME, "version": _TEXT, "gpus": GPUS,
        "labels": {"type": "array", "items": _TEXT},
    },
}  # fmt: skip
BEAT: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": _NAME, "gpus": GPUS, "status": _TEXT},
}
PLAN: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {"id": _TEXT, "name": _NAME},
}
AGENT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "name", "gpu_count", "gpus", "status"],
    "properties": {
        "id": _TEXT, "name": _TEXT, "gpu_count": {"type": "integer", "minimum": 0}, "gpus": GPUS,
        "status": {"enum": [ONLINE, OFFLINE, MAINTENANCE, PENDING]},
    },
}  # fmt: skip
DETAILS: dict[str, Any] = {
    **AGENT,
    "properties": {
        **AGENT["properties"],
        "version": _TEXT,
        "reported_status": _TEXT,
        "labels": {"type": "array", "items": _TEXT},
        "registered_at": {"type": "string", "format": "date-time"},
        "last_heartbeat_at": {"type": "string", "format": "date-time"},
    },
}


@dataclass(frozen=True, slots=True)
class Said:
    """What a registration or a heartbeat says; None was not sent. "" is no id."""

    native_id: str
    name: str = ""
    version: str | None = None
    gpus: list[Gpu] | None = None
    labels: list[str] | None = None
    status: str | None = None


def read_registration(body: Members) -> Said:
    """Return what a registration says; raise Refusal."""
    said = Said(
        native_id=body.text("id") or "",
        name=body.needed_text("name", at_least=1),
        version=body.text("version"),
        gpus=read_gpus(body),
        labels=body.text_list("labels"),
    )
    body.done()
    return said


def read_beat(body: Members) -> Said:
    """Return what a heartbeat says; raise Refusal."""
    said = Said(
        native_id=body.needed_text("id", at_least=1), gpus=read_gpus(body), status=body.text("status")
    )
    body.done()
    return said


def read_plan(body: Members) -> Said:
    """Return the id, "" for one to be assigned, and the name of a row to create; raise Refusal."""
    said = Said(native_id=body.text("id") or "", name=body.needed_text("name", at_least=1))
    body.done()
    return said


def report(native_id: str, said: Said, *, token: str, known: NodeState | None) -> Report:
    """Return what an agent says of itself, in our words, with what it left out as it is known.

    `token` is the fingerprint of what it speaks with.
    """
    told = _told(known)
    told |= {} if said.version is None else {"version": said.version}
    told |= {} if said.labels is None else {"labels": said.labels}
    if said.gpus is not None:
        told |= {"gpus": spelled(said.gpus), "findings": findings(said.gpus)}
    told.pop("status", None)
    return _reported(native_id, said.name, {**told, "token": token})


def merged(native_id: str, said: Said, known: NodeState) -> Report:
    """Return the report of a known agent after a heartbeat: GPUs that it lists are those that there are."""
    told = _told(known)
    if said.gpus is not None:
        before = {key(gpu, at): gpu for at, gpu in enumerate(told.get("gpus", []))}
        whole = [{**before.get(key(gpu, at), {}), **gpu} for at, gpu in enumerate(said.gpus)]
        told |= {"gpus": spelled(whole), "findings": findings(whole)}
    told |= {} if said.status is None else {"status": said.status}
    return _reported(native_id, known.hostname or "", told)


def is_planned(state: NodeState) -> bool:
    """Say whether a node is a row whose agent has not registered yet."""
    return (
        state.registered_at is None
        and state.retired_at is None
        and state.effective_annotations.get(PLANNED) == "true"
    )


def speaks_with(state: NodeState) -> str:
    """Return the fingerprint of the token that a registered agent spoke with last."""
    token: str = _told(state).get("token", "")
    return token


def could_be(state: NodeState, gpus: Sequence[Gpu] | None) -> bool:
    """Say whether GPUs may be those of a known agent: no index has another model or size."""
    known = {gpu["index"]: gpu for gpu in _told(state).get("gpus", []) if "index" in gpu}
    for gpu in gpus or ():
        before = known.get(gpu.get("index"), {})
        for member in ("model", "mem_total_gb"):
            if member in gpu and member in before and not is_same(gpu[member], before[member]):
                return False
    return True


def agent(state: NodeState, beat: Heartbeat | None, *, gpus: Sequence[Gpu] | None = None) -> dict[str, Any]:
    """Return an agent as its calls show it; `gpus` are those that it has just reported."""
    if gpus is None:
        shown = shown_gpus(_told(state).get("gpus", []), {} if beat is None else beat.used)
    else:
        shown = [ordered(gpu) for gpu in gpus]
    native_id = (state.dialect or {}).get("native_id") or state.node_id.partition(":")[2]
    return {
        "id": native_id,
        "name": (state.effective_display_name if is_planned(state) else state.hostname) or "",
        "gpu_count": len(shown),
        "gpus": shown,
        "status": _status(state),
    }


def details(state: NodeState, beat: Heartbeat | None) -> dict[str, Any]:
    """Return an agent as whoever looks after it sees it."""
    told = _told(state)
    return {
        **agent(state, beat),
        **({"version": told["version"]} if "version" in told else {}),
        **({"reported_status": told["status"]} if "status" in told else {}),
        "labels": _shown_labels(state, told.get("labels", [])),
        **({"registered_at": state.registered_at} if state.registered_at else {}),
        **({"last_heartbeat_at": beat.last_heartbeat_at} if beat is not None else {}),
    }


def _told(state: NodeState | None) -> dict[str, Any]:
    """Return what is kept of an agent's own words. Anybody may have written the fact: types are checked."""
    kept = {} if state is None else attributes(state)
    told: dict[str, Any] = {
        name: kept[name] for name in ("version", "status", "token") if isinstance(kept.get(name), str)
    }
    for name in ("labels", "findings"):
        if isinstance(listed := kept.get(name), list):
            told[name] = [text for text in listed if isinstance(text, str)]
    if isinstance(listed := kept.get("gpus"), list):
        told["gpus"] = kept_gpus(listed)
    return told


def _reported(native_id: str, name: str, told: dict[str, Any]) -> Report:
    gpus = told.get("gpus")
    return Report(
        native_id=native_id,
        attributes={name: value for name, value in told.items() if name != "findings" or value},
        machine_id=native_id,
        hostname=name,
        display_name=name,
        agent={"version": told["version"]} if "version" in told else None,
        labels=_labels(told.get("labels", [])),
        resources={} if gpus is None else resources(gpus),
        devices=[device(gpu, at) for at, gpu in enumerate(gpus or ())],
    )


def _labels(listed: Iterable[str]) -> dict[str, str]:
    """Return labels by key: `a=b` is a label with a value, any other text one with none."""
    found: dict[str, str] = {}
    for text in listed:
        name, _, value = text.partition("=")
        if name:
            found.setdefault(name, value)
        elif text:
            found.setdefault(text, "")
    return found


def _shown_labels(state: NodeState, listed: Iterable[str]) -> list[str]:
    """Return the labels as the agent listed them, with what is declared in their place or beside them."""
    declared = state.standing_declared.labels if state.standing_declared else {}
    kept = [text for text in listed if text.partition("=")[0] not in declared]
    return [*kept, *(f"{key}={value}" if value else key for key, value in sorted(declared.items()))]


def _status(state: NodeState) -> str:
    if is_planned(state):
        return PENDING
    derived = derive(state)
    if derived.liveness == LOST:
        return OFFLINE
    return ONLINE if derived.intent == OPEN else MAINTENANCE
