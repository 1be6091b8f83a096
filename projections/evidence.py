"""What an explanation of a node is made of: what is known of it and of how it is judged (floor 2, pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from projections.derive import Derived
from projections.handles import Handle

if TYPE_CHECKING:
    from events.ids import NodeId
    from projections.heartbeats import Heartbeat
    from projections.judging import Outlook
    from projections.state import NodeState


class Judged(NamedTuple):
    """What the fact of a verdict says it was made on; what it does not say is None, or ""."""

    rule: str
    last_heartbeat_at: datetime | None
    beat_seq: int | None
    silent_s: float | None
    grace_s: float | None
    deadline_at: datetime | None


class ZoneSilence(NamedTuple):
    """What the last fact about a node's zone says: `silent` of its `members` fell silent, or speak again.

    `held_until` is None where it holds no verdicts.
    """

    zone: str
    is_silent: bool
    since: datetime
    silent: int | None
    members: int | None
    held_until: datetime | None
    rule: str
    cause_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All of one moment, `now`. `mode` and `mode_reason` are the evaluator's.

    `outlook` is None where no evaluator knows the node, `zone` where no fact is about its zone, `judged`
    where no verdict stands.
    """

    state: NodeState
    derived: Derived
    now: datetime
    beat: Heartbeat | None = None
    outlook: Outlook | None = None
    judged: Judged | None = None
    zone: ZoneSilence | None = None
    mode: str = "off"
    mode_reason: str = ""
    shared: tuple[str, ...] = ()
    sharers: Mapping[Handle, Sequence[NodeId]]

    @property
    def is_suspect(self) -> bool:
        """Whether it missed a beat while somebody watched, and no verdict has said so yet."""
        return (
            self.outlook is not None
            and self.outlook.is_suspect
            and self.derived.liveness in ("alive", "pending")
            and self.state.retired_at is None
        )

    @property
    def beats_for_another_boot(self) -> bool:
        """Whether the heartbeats are of another boot than the one that registered."""
        boot_id = self.state.boot_id
        return self.beat is not None and boot_id is not None and self.beat.boot_id != boot_id

    @property
    def holding_zone(self) -> ZoneSilence | None:
        """The zone's silence, while it holds the verdict on this node."""
        zone = self.zone
        if zone is None or not zone.is_silent or zone.held_until is None or zone.held_until <= self.now:
            return None
        return zone
