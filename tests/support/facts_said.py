"""Facts that somebody else than the API appends, over a real broker: verdicts, allocations, decisions."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

from events.codec import encode_fact
from events.envelope import new_event
from events.facts import FactData
from events.ids import node_id
from tests.support.serving import Serving


async def say(served: Serving, node: str, data: FactData) -> int:
    """Append a fact about a node; return its position, once it is folded."""
    event = new_event(data, about=node_id(node), source="/test", event_id=uuid4().hex, time=datetime.now(UTC))
    return await served.publish(event.subject, encode_fact(event))
