"""What an agent says, as subjects and bytes (floor 4, pure): the same for agent and simulator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from events.codec import encode_fact
from events.digest import payload_digest
from events.envelope import new_event
from events.facts import Leaving, Registered
from events.ids import NodeId, node_id
from events.subjects import fact_subject

_NOBODY = node_id("-")
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FactMessage:
    """A fact ready to be published. The broker drops a second message with the same id."""

    subject: str
    payload: bytes
    message_id: str


def registration(
    node: NodeId, *, boot_id: str, seq: int, at: datetime, inventory: Mapping[str, Any], digest: str
) -> FactMessage:
    """Return the registration of an inventory; its id is made of node, boot and digest."""
    data = Registered(boot_id=boot_id, seq=seq, sent_at=at, **inventory)
    return _message(node, data, verb="registered", message_id=f"{node}/{boot_id}/{digest}", at=at)


def digest_of(inventory: Mapping[str, Any]) -> str:
    """Return the digest of a registration with this inventory, as a reader of the log computes it.

    What is registered is not the inventory letter by letter: members that say nothing are left out.
    """
    said = registration(_NOBODY, boot_id="-", seq=0, at=_NEVER, inventory=inventory, digest="-")
    return payload_digest(said.payload)


def goodbye(node: NodeId, *, boot_id: str, seq: int, at: datetime, cause: str) -> FactMessage:
    """Return what is said at an orderly stop."""
    data = Leaving(boot_id=boot_id, seq=seq, sent_at=at, cause=cause)
    return _message(node, data, verb="leaving", message_id=f"{node}/{boot_id}/leaving", at=at)


def beat(*, boot_id: str, seq: int, at: datetime, digest: str, used: Mapping[str, int | float]) -> bytes:
    """Return one heartbeat, about 150 bytes."""
    body: dict[str, Any] = {"boot_id": boot_id, "seq": seq, "sent_at": rfc3339(at)}
    if digest:
        body["inventory"] = digest
    return orjson.dumps(body | {"used": used})


def self_portrait(node: NodeId, *, boot_id: str, seq: int, at: datetime, digest: str) -> bytes:
    """Return the answer to a probe."""
    return orjson.dumps(
        {"node_id": node, "boot_id": boot_id, "seq": seq, "inventory": digest, "sent_at": rfc3339(at)}
    )


def phase(node: NodeId) -> float:
    """Return a node's place within an interval, 0 to 1: the same for ever, and even over many nodes."""
    return int.from_bytes(hashlib.sha256(node.encode()).digest()[:8]) / 2**64


def rfc3339(moment: datetime) -> str:
    """Return a UTC time to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(
    node: NodeId, data: Registered | Leaving, *, verb: str, message_id: str, at: datetime
) -> FactMessage:
    event = new_event(data, about=node, source=f"/agents/{node}", event_id=message_id, time=at)
    return FactMessage(fact_subject("agent", node, verb), encode_fact(event), message_id)
