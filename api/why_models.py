"""The shape of the answer why a node is what it is (floor 3); `api.models` says how members are written."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from api.models import Answer, IntentWord, LivenessWord, Shape, StateWord
from api.node_models import Change, Heartbeats, Hold, Leaving


class Prospect(Shape):
    """One event, and what it would make of the node."""

    event: str
    outcome: str
    state: StateWord | None = Field(description="the word it would have then; null: the event changes none")
    at: datetime | None = Field(description="when it comes by itself; null: somebody has to do something")


class Condition(Shape):
    """One condition of the node."""

    name: str
    about: str = Field(description="in words: which address, which other nodes, how far off")


class JudgedVerdict(Shape):
    """The verdict that stands, and what its fact says it was made on."""

    word: Literal["alive", "lost"]
    boot_id: str | None
    since: datetime
    cause_seq: int = Field(description="the position in FLEET of the verdict")
    rule: str
    last_heartbeat_at: datetime | None
    beat_seq: int | None = Field(description="the position in BEATS of that heartbeat")
    silent_s: float | None
    grace_s: float | None
    deadline_at: datetime | None


class Zone(Shape):
    """What the last fact about the node's zone says."""

    zone: str
    is_silent: bool
    since: datetime
    silent: int | None = Field(description="how many of its members went silent together, or speak again")
    members: int | None
    held_until: datetime | None
    rule: str
    cause_seq: int
    is_holding: bool = Field(description="whether it holds the verdict on this node now")


class Judging(Shape):
    """By which numbers the node's silence is judged, and whether anything is in the way of it."""

    mode: Literal["watching", "waiting", "degraded", "off"]
    reason: str = Field(description="why the evaluator is not `watching`")
    withheld: str = Field(description="why nobody, or not this node, is called lost now; empty: nothing is")
    interval_s: float | None
    grace_s: float | None
    silent_s: float | None = Field(description="since its last sign, watched or not")
    suspect: bool
    expected_lost_at: datetime | None = Field(description="if it stays silent from now on")
    zone: Zone | None


class LastBeat(Shape):
    """One of the newest heartbeats that the broker holds."""

    beat_seq: int = Field(description="position in BEATS")
    stored_at: datetime = Field(description="when the broker received it")
    boot_id: str | None
    seq: int | None = Field(description="its number within the boot")
    sent_at: datetime | None = Field(description="by the node's own clock")
    delay_ms: int | None = Field(description="from sent to received, by two clocks: transport and skew")
    since_previous_ms: int | None = Field(description="between this one's receipt and that of the one before")
    unreadable: str = Field(description="why it could not be read; empty where it could")


class Retirement(Shape):
    """The last tombstone."""

    at: datetime
    actor: str
    reason: str
    incarnation: int
    restored_at: datetime | None


class Reports(Shape):
    """How many registrations and goodbyes changed nothing, by why."""

    duplicates: int
    reordered: int
    identical: int
    of_the_retired: int


class Identity(Shape):
    """Who the node is."""

    boot_id: str | None
    boot_at: datetime | None
    previous_boots: list[str]
    machine_id: str | None
    incarnation: int
    conflict: list[str] = Field(description="the boots that report under this id in turn")
    first_registered_at: datetime | None
    registered_at: datetime | None
    reports: Reports


class WhyAnswer(Answer):
    """Why a node is what it is, and what would change it."""

    id: str
    state: StateWord
    liveness: LivenessWord
    liveness_since: datetime | None
    intent: IntentWord
    lifecycle: Literal["active", "retired"]
    schedulable: bool
    reasons: list[str]
    summary: str = Field(description="one sentence, which begins with the state")
    because: list[str] = Field(description="what it rests on, a sentence each")
    would_change: list[Prospect]
    conditions: list[Condition]
    verdict: JudgedVerdict | None
    judging: Judging
    heartbeats: Heartbeats | None
    last_heartbeat_at: datetime | None
    inventory_at: datetime | None
    changed_at: datetime
    last_beats: list[LastBeat] | None = Field(description="newest first; null: they could not be looked up")
    last_beats_unknown: str = Field(description="why they could not; empty where they could")
    holds: list[Hold]
    retirement: Retirement | None
    leaving: Leaving | None
    identity: Identity
    changes: list[Change] = Field(description="the newest of its timeline, newest first")
    version: int
