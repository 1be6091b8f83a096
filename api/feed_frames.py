"""What a follower of the changes reads, one frame after the other (floor 3, pure).

    change      what became different about a node
    gap         facts that are gone: what they caused, nobody knows
    epoch       the log is another one, or went back: positions so far mean nothing in it
    caught_up   everything that is folded was told; what follows is told as it is folded

Each has a `cursor`: the position after it. A page of the list has the first two as its items; a stream has
all four, as server-sent events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from api.auth import NATIVE_PREFIX
from api.json_text import dumps
from events.announcements import Announcement, members
from events.change_cursor import ChangeCursor
from events.ids import NodeId

CHANGE, GAP, EPOCH, CAUGHT_UP = "change", "gap", "epoch", "caught_up"
SNAPSHOT = f"{NATIVE_PREFIX}/nodes?include_retired=true"
"""Where the present is told, with tombstones, so that no retirement is missed."""

RETRY = b"retry: 1000\n\n"
# How long a browser waits before it asks again, in milliseconds.


class Selection(NamedTuple):
    """Which changes are wanted; none of a sort selects all. A kind is `state` or `state.lost`."""

    nodes: tuple[NodeId, ...] = ()
    kinds: tuple[str, ...] = ()


EVERYTHING = Selection()


class Frame(NamedTuple):
    """One frame: its JSON, the position after it, and for a change what it is selected by."""

    frame: str
    cursor: ChangeCursor
    body: bytes
    node_id: NodeId | None = None
    kind: str = ""
    detail: str = ""

    @property
    def event(self) -> bytes:
        """The frame as a server-sent event, whose id is the position after it."""
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (
            str(self.cursor).encode(),
            self.frame.encode(),
            self.body,
        )


def change_frame(announcement: Announcement) -> Frame:
    """Return the frame of an announcement."""
    body = dumps({"frame": CHANGE, "at": announcement.at, **members(announcement)})
    cursor, kind, detail = announcement.cursor, announcement.kind, announcement.detail
    return Frame(CHANGE, cursor, body, announcement.node_id, kind, detail)


def gap_frame(epoch: str, low: int, high: int) -> Frame:
    """Return the frame of facts that are gone, from one sequence of FLEET to another one."""
    cursor = ChangeCursor(epoch, high)
    told = {
        "frame": GAP,
        "from": low,
        "to": high,
        "reason": "the broker no longer holds these records of FLEET: what they changed is not known",
        "snapshot": f"{SNAPSHOT}&min_seq={high}",
        "cursor": str(cursor),
    }
    return Frame(GAP, cursor, dumps(told))


def epoch_frame(detail: str, *, before: ChangeCursor, after: ChangeCursor) -> Frame:
    """Return the frame before what another log says: `detail` is `epoch`, or `rewound` where it went back."""
    told = {
        "frame": EPOCH,
        "detail": detail,
        "before": {"epoch": before.epoch, "cursor": str(before)},
        "after": {"epoch": after.epoch, "cursor": str(after)},
        "snapshot": SNAPSHOT,
        "cursor": str(after),
    }
    return Frame(EPOCH, after, dumps(told))


def caught_up_frame(cursor: ChangeCursor, as_of: dict[str, Any]) -> Frame:
    """Return the frame between what was and what will be."""
    return Frame(CAUGHT_UP, cursor, dumps({"frame": CAUGHT_UP, "cursor": str(cursor), "as_of": as_of}))


def heartbeat(cursor: ChangeCursor) -> bytes:
    """Return a comment that keeps the connection, and the position for one whose filters fit nothing."""
    return b": heartbeat\nid: %b\n\n" % str(cursor).encode() if cursor.epoch else b": heartbeat\n\n"


def fits(frame: Frame, selection: Selection) -> bool:
    """Say whether a frame is wanted; those that are no changes always are."""
    nodes, kinds = selection
    if frame.frame != CHANGE or not (nodes or kinds):
        return True
    return (not nodes or frame.node_id in nodes) and (
        not kinds or frame.kind in kinds or f"{frame.kind}.{frame.detail}" in kinds
    )


def in_order(
    epoch: str,
    changes: Iterable[Announcement],
    holes: Iterable[tuple[int, int]],
    *,
    after: ChangeCursor,
) -> list[Frame]:
    """Return the frames of a page: its changes with the gaps between them."""
    frames: list[Frame] = []
    gaps = [(max(low, after.seq + 1), high) for low, high in holes]
    for announcement in changes:
        while gaps and gaps[0][1] < announcement.cause_seq:
            frames.append(gap_frame(epoch, *gaps.pop(0)))
        frames.append(change_frame(announcement))
    return frames + [gap_frame(epoch, *gap) for gap in gaps]
