"""Subjects, built and parsed in this one place (floor 1, pure).

fleet.v1.agent.<node>.<verb>      registered, leaving                   stream FLEET
fleet.v1.operator.<node>.<verb>   what people decide                    stream FLEET
fleet.v1.platform.<node>.<verb>   allocated, released                   stream FLEET
fleet.v1.liveness.<node>.<verb>   alive, lost, settled                  stream FLEET
fleet.v1.zone.<zone>.<verb>       silent, recovered                     stream FLEET
fleet.v1.beat.<node>              heartbeats                            stream BEATS
fleet.v1.node.<node>.<kind>.<detail>   announcements                    stream CHANGES
fleet.v1.node.~.log.<detail>      another log, or one that went back    stream CHANGES
fleet.v1.ask.<node>               service to agent, core NATS
fleet.api.v1.<question>           questions and answers, core NATS
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from events.errors import InvalidNodeIdError, InvalidSubjectError
from events.ids import NodeId, Zone, from_token, token, zone_from_token, zone_token

ROOT = "fleet.v1"
BEAT_PREFIX = f"{ROOT}.beat."
Owner = Literal["agent", "operator", "platform", "liveness", "zone"]
OWNERS: tuple[Owner, ...] = ("agent", "operator", "platform", "liveness", "zone")

FLEET_SUBJECTS = tuple(f"{ROOT}.{owner}.*.*" for owner in OWNERS)
BEATS_SUBJECTS = (f"{ROOT}.beat.*",)
CHANGES_SUBJECTS = (f"{ROOT}.node.*.*.*",)
OURS = "fleet."
"""What all our subjects begin with: no question is answered below it, where a record would be made."""
API_PREFIX = "fleet.api.v1"
NO_NODE = "~"
"""In the place of a node's token, which never has this character: it would be percent-encoded."""


class FactSubject(NamedTuple):
    """What a subject of the stream FLEET says: who wrote, about which node or zone, and what."""

    owner: Owner
    node_id: NodeId | None
    zone: Zone | None
    verb: str


def fact_subject(owner: Owner, about: NodeId, verb: str) -> str:
    """Return the subject of a fact about a node."""
    return f"{ROOT}.{owner}.{token(about)}.{verb}"


def zone_subject(about: Zone, verb: str) -> str:
    """Return the subject of a fact about a zone."""
    return f"{ROOT}.zone.{zone_token(about)}.{verb}"


def node_facts_filter(about: NodeId) -> str:
    """Return the filter over every fact about one node: what an expected last sequence is counted over."""
    return f"{ROOT}.*.{token(about)}.*"


def zone_facts_filter(about: Zone) -> str:
    """Return the filter over every fact about one zone: what an expected last sequence is counted over."""
    return f"{ROOT}.zone.{zone_token(about)}.*"


def beat_subject(about: NodeId) -> str:
    """Return the subject of a node's heartbeats."""
    return BEAT_PREFIX + token(about)


def ask_subject(about: NodeId) -> str:
    """Return the subject on which an agent is asked."""
    return f"{ROOT}.ask.{token(about)}"


def change_subject(about: NodeId, kind: str, detail: str) -> str:
    """Return the subject of an announcement."""
    return f"{ROOT}.node.{token(about)}.{kind}.{detail}"


def log_subject(detail: str) -> str:
    """Return the subject of what is announced about the log itself; no node has its third token."""
    return f"{ROOT}.node.{NO_NODE}.log.{detail}"


def parse_fact(subject: str) -> FactSubject:
    """Return what a subject of FLEET says; raise InvalidSubjectError where it is not one."""
    parts = subject.split(".")
    if len(parts) != 5 or parts[0] != "fleet" or parts[1] != "v1":
        raise InvalidSubjectError(subject, why="a fact has five tokens: fleet.v1.<owner>.<node>.<verb>")
    owner, about, verb = parts[2], parts[3], parts[4]
    try:
        match owner:
            case "zone":
                return FactSubject("zone", None, zone_from_token(about), verb)
            case "agent" | "operator" | "platform" | "liveness":
                return FactSubject(owner, from_token(about), None, verb)
    except InvalidNodeIdError as err:
        raise InvalidSubjectError(subject, why=str(err)) from err
    raise InvalidSubjectError(subject, why=f"the owner is one of {', '.join(OWNERS)}")


def parse_beat(subject: str) -> NodeId:
    """Return whose heartbeat a subject carries; raise InvalidSubjectError where it is not one."""
    if not subject.startswith(BEAT_PREFIX):
        raise InvalidSubjectError(subject, why=f"a heartbeat's subject begins with {BEAT_PREFIX}")
    try:
        return from_token(subject[len(BEAT_PREFIX) :])
    except InvalidNodeIdError as err:
        raise InvalidSubjectError(subject, why=str(err)) from err
