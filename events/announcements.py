"""What subscribers of CHANGES read (floor 1, pure): CloudEvents 1.0 in structured JSON mode.

One sort tells what became different about a node. The other one, on the subject of no node, tells that the
log itself is another one (`log.epoch`) or went back (`log.rewound`): whoever follows begins anew with a
snapshot.
The same announcement is the same bytes, whoever encodes it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import orjson

from events.change_cursor import ChangeCursor, parse_cursor
from events.envelope import JSON_TYPE, SPECVERSION
from events.ids import NodeId
from events.registry import PREFIX
from events.subjects import change_subject, log_subject

SOURCE = "/announcer"
LOG = "log"
EPOCH = "epoch"
REWOUND = "rewound"

MAX_SIDE_CHARS = 100 * 1024
# Of `before` and of `after`: together they stay below a broker's largest message, 1 MiB where nobody set it,
# in any script. A fact has 64 KiB, so only taking away a thousand long labels at once comes near.

_DATE = orjson.OPT_UTC_Z


class Announcement(NamedTuple):
    """The n-th announcement of the fact `cause_seq`, from 0; `before` and `after` are JSON text.

    `at` is when it became so, `cause_at` when the broker stored the fact; they differ where its clock stepped
    back.
    """

    epoch: str
    cause_seq: int
    n: int
    at: datetime
    node_id: NodeId
    kind: str
    detail: str
    before: str
    after: str
    actor: str
    reason: str
    cause_type: str
    cause_at: datetime

    @property
    def cursor(self) -> ChangeCursor:
        """The position after it, whose text is also its id."""
        return ChangeCursor(self.epoch, self.cause_seq, self.n)


class Message(NamedTuple):
    """A message for CHANGES, and the position after it."""

    subject: str
    payload: bytes
    cursor: ChangeCursor


class Told(NamedTuple):
    """What a message of CHANGES says about where its announcer was; `cause_at` is None for one of the log."""

    cursor: ChangeCursor
    cause_at: datetime | None


def members(announcement: Announcement) -> dict[str, Any]:
    """Return the members of an announcement, as its event's data and the API's items have them."""
    before, after = announcement.before, announcement.after
    omitted = [name for name, side in (("before", before), ("after", after)) if len(side) > MAX_SIDE_CHARS]
    found: dict[str, Any] = {
        "node_id": announcement.node_id,
        "kind": announcement.kind,
        "detail": announcement.detail,
        "before": None if "before" in omitted else orjson.Fragment(before),
        "after": None if "after" in omitted else orjson.Fragment(after),
        "cause_seq": announcement.cause_seq,
        "n": announcement.n,
        "cause_type": announcement.cause_type,
        "cause_at": announcement.cause_at,
        "actor": announcement.actor,
        "reason": announcement.reason,
        "cursor": str(announcement.cursor),
    }
    if omitted:
        found["omitted"] = omitted
    return found


def encode(announcement: Announcement) -> Message:
    """Return the message of an announcement."""
    kind, detail, cursor = announcement.kind, announcement.detail, announcement.cursor
    payload = _event(
        event_id=str(cursor),
        kind=kind,
        detail=detail,
        about=announcement.node_id,
        time=announcement.at,
        data=members(announcement),
    )
    return Message(change_subject(announcement.node_id, kind, detail), payload, cursor)


def encode_break(
    detail: str,
    *,
    before: ChangeCursor,
    after: ChangeCursor,
    cause_at: datetime | None,
    record: int,
    time: datetime,
    why: str,
) -> Message:
    """Return the message that tells of another log, or of one that went back: `detail` is EPOCH or REWOUND.

    `before` is the last position that was announced, `after` the one that announcing goes on after, whose
    fact was stored at `cause_at` (None for the beginning). `record` is the sequence in CHANGES of the last
    announcement before it, which makes its id the only one.
    """
    data = {
        "node_id": None,
        "kind": LOG,
        "detail": detail,
        "before": {"epoch": before.epoch, "cursor": str(before)},
        "after": {"epoch": after.epoch, "cursor": str(after)},
        "cause_at": cause_at,
        "actor": "announcer",
        "reason": why,
        "cursor": str(after),
    }
    payload = _event(
        event_id=f"{after.epoch}/{LOG}/{record}", kind=LOG, detail=detail, about=None, time=time, data=data
    )
    return Message(log_subject(detail), payload, after)


def read_told(payload: bytes) -> Told | None:
    """Return where the announcer of a message was; None for a message that no announcer wrote."""
    try:
        event = orjson.loads(payload)
        data = event["data"]
        cause_at = data.get("cause_at")
        return Told(
            parse_cursor(data["cursor"]), None if cause_at is None else datetime.fromisoformat(cause_at)
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _event(
    *, event_id: str, kind: str, detail: str, about: NodeId | None, time: datetime, data: dict[str, Any]
) -> bytes:
    return orjson.dumps(
        {
            "specversion": SPECVERSION,
            "id": event_id,
            "source": SOURCE,
            "type": f"{PREFIX}.{LOG if about is None else f'node.{kind}'}.{detail}.v1",
            **({"subject": about} if about is not None else {}),
            "time": time,
            "datacontenttype": JSON_TYPE,
            "data": data,
        },
        option=_DATE,
    )
