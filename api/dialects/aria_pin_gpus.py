"""GPUs as Aria PIN's agents list them: read, kept, measured and shown (floor 3, pure).

What a GPU is, is inventory and kept in the registration as it was spelled; how much of it is in use is
measured and kept in heartbeats. A member that was not sent stays absent: it is not 0.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from api.dialects.reading import Members
from api.json_text import number
from events.facts import MAX_COUNT, Device, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GB = 2**30
# A "GB" of GPU memory is binary: an 80 GB device has 81,920 MiB.
MOST_GB = 2**33
# 8 EiB: no sum of it leaves the range of amounts.
MOST_MEASURED_BYTES = 3000
# Of names of single GPUs in one heartbeat, which may have 4,096 bytes in all: some 50 GPUs.

INVENTORY = ("index", "model", "mem_total_gb", "slots")
MEASURED = ("mem_used_gb", "used_slots")
ORDER = ("index", "model", "mem_total_gb", "mem_used_gb", "slots", "used_slots")
SLOT, GPU, GPU_MEMORY = "slot", "gpu", "gpu.memory"

_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")

Gpu = dict[str, Any]
"""The members of one GPU that were sent, or that are kept of it."""

_COUNT = {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}
_GB = {"type": "number", "minimum": 0, "maximum": MOST_GB}
GPUS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "index": _COUNT,
            "model": {"type": "string"},
            "mem_total_gb": _GB,
            "mem_used_gb": _GB,
            "slots": _COUNT,
            "used_slots": _COUNT,
        },
    },
}


def read_gpus(body: Members) -> list[Gpu] | None:
    """Return the GPUs that a body lists, None where it lists none at all; an index stands once."""
    listed = body.objects("gpus")
    if listed is None:
        return None
    found: list[Gpu] = []
    indexes: set[object] = set()
    for one in listed:
        read = {
            "index": one.integer("index", minimum=0),
            "model": one.text("model"),
            "mem_total_gb": _gb(one, "mem_total_gb"),
            "mem_used_gb": _gb(one, "mem_used_gb"),
            "slots": one.integer("slots", minimum=0),
            "used_slots": one.integer("used_slots", minimum=0),
        }
        gpu = {name: value for name, value in read.items() if value is not None}
        if gpu.get("index") in indexes:
            one.fault("index", f"{gpu['index']} is there twice")
        indexes |= {gpu["index"]} if "index" in gpu else set()
        found.append(gpu)
    return found


def _gb(gpu: Members, name: str) -> Decimal | None:
    value = gpu.number(name, minimum=0)
    if value is not None and value > MOST_GB:
        gpu.fault(name, f"is at most {MOST_GB}")
    return value


def measured(gpus: Sequence[Gpu]) -> dict[str, Decimal]:
    """Return what is in use: sums in our units, and each GPU's members in the dialect's, where they fit."""
    found: dict[str, Decimal] = {}
    slots = [Decimal(gpu["used_slots"]) for gpu in gpus if "used_slots" in gpu]
    memory = [_bytes(gpu["mem_used_gb"]) for gpu in gpus if "mem_used_gb" in gpu]
    found |= {SLOT: sum(slots, Decimal(0))} if slots else {}
    found |= {GPU_MEMORY: sum(memory, Decimal(0))} if memory else {}
    left = MOST_MEASURED_BYTES
    for at, gpu in enumerate(gpus):
        for member in MEASURED:
            if member in gpu:
                name, value = f"{_device_id(gpu, at)}.{member}", Decimal(gpu[member])
                left -= len(name) + len(str(value)) + 4
                if left < 0:
                    return found
                found[name] = value
    return found


def resources(gpus: Sequence[Gpu]) -> dict[str, Resource]:
    """Return sums over GPUs: unknown where only some say, absent where none does."""
    found = {GPU: Resource(total=Decimal(len(gpus)))}
    for name, member in ((SLOT, "slots"), (GPU_MEMORY, "mem_total_gb")):
        said = [Decimal(str(gpu[member])) for gpu in gpus if member in gpu]
        if said:
            amounts = said if member == "slots" else [_bytes(one) for one in said]
            total = sum(amounts, Decimal(0)) if len(said) == len(gpus) else None
            found[name] = Resource(total=total)
    return found


def device(gpu: Gpu, at: int) -> Device:
    """Return the GPU at a place of the list as a device; whether it is healthy, the dialect does not say."""
    memory = _bytes(Decimal(str(gpu["mem_total_gb"]))) if "mem_total_gb" in gpu else None
    return Device(id=_device_id(gpu, at), kind=GPU, model=gpu.get("model"), memory=memory)


def _device_id(gpu: Gpu, at: int) -> str:
    return f"gpu-{gpu['index']}" if "index" in gpu else f"gpu-at-{at}"


def key(gpu: Gpu, at: int) -> tuple[str, int]:
    """Return what tells a GPU from others of its list: its index, else its place."""
    return ("index", gpu["index"]) if "index" in gpu else ("at", at)


def _bytes(amount_gb: Decimal) -> Decimal:
    return (amount_gb * GB).to_integral_value()


def spelled(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the inventory of GPUs as a registration keeps it: no number loses a digit."""
    return [{name: _kept(gpu[name]) for name in INVENTORY if name in gpu} for gpu in gpus]


def kept_gpus(listed: Sequence[object]) -> list[Gpu]:
    """Return GPUs from a registration in the log, without members that are none."""
    found = []
    for one in listed:
        members = one if isinstance(one, dict) else {}
        found.append(
            {name: value for name, value in members.items() if name in INVENTORY and _is_one(name, value)}
        )
    return found


def _is_one(name: str, value: object) -> bool:
    if name == "model":
        return isinstance(value, str)
    if name == "mem_total_gb" and isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    if type(value) is int:
        return 0 <= value <= MAX_COUNT
    return name == "mem_total_gb" and isinstance(value, float) and 0 <= value <= MOST_GB


def _kept(value: object) -> object:
    if not isinstance(value, Decimal):
        return value  # as it was kept
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else str(value)


def is_same(said: object, known: object) -> bool:
    """Say whether a member that is sent has the value that is kept of it."""
    return Decimal(str(known)) == said if isinstance(said, Decimal) else known == said


def findings(gpus: Sequence[Gpu] | None) -> list[str]:
    """Return what is odd, in words that do not change with each measurement."""
    return [
        f"{_device_id(gpu, at)}: used_slots is above slots"
        for at, gpu in enumerate(gpus or ())
        if "used_slots" in gpu and "slots" in gpu and gpu["used_slots"] > gpu["slots"]
    ]


def shown_gpus(kept: Sequence[Gpu], used: Mapping[str, float | None]) -> list[Gpu]:
    """Return GPUs as answers show them: what is kept of each with what was measured last."""
    shown = []
    for at, gpu in enumerate(kept):
        name = _device_id(gpu, at)
        values: Gpu = {member: used.get(f"{name}.{member}") for member in MEASURED}
        if (slots := values["used_slots"]) is not None:
            # Beyond 2^53 what is measured is rounded, which may be past the largest number there is.
            values["used_slots"] = min(Decimal(str(slots)), Decimal(MAX_COUNT))
        shown.append(
            ordered({**gpu, **{member: value for member, value in values.items() if value is not None}})
        )
    return shown


def ordered(gpu: Gpu) -> Gpu:
    """Return a GPU as answers show it: its members in one order, numbers exact."""
    return {
        name: gpu[name] if name == "model" else number(Decimal(str(gpu[name])))
        for name in ORDER
        if name in gpu
    }
