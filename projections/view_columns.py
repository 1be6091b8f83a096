"""What columns mean that several views and macros of schema `fleet` have (floor 2, pure)."""

from __future__ import annotations

NODE_ID = "the node's id: any text, never a number"
WRITTEN_AT = 'written "at" or qualified (x.at), since AT alone is a word of the language'
AXES = {
    "state": "one word for all axes: pending, ready, lost, cordoned, draining, maintenance or retired",
    "liveness": "pending (no verdict yet), alive, lost, or unmonitored (it sends no heartbeats)",
    "intent": "what operators want: open, cordoned, draining or maintenance",
    "schedulable": "whether new work may be placed on it",
}
PLACES = {
    "region": "region as reported",
    "zone": "zone as reported",
    "pool": "pool as reported",
}
CAUSE = {
    "cause_seq": "sequence in FLEET of the fact that began the band",
    "cause_type": "type of that fact",
    "actor": "who decided it, else who wrote the fact: agent, operator, platform or liveness",
    "reason": "why, as the actor said",
}
NUMBERS = {
    "status": "reported, or unknown: the resource is there and nobody can say how much of it",
    "total": "what the machine has; NULL is unknown, which is not zero",
    "reserved": "kept for the machine itself, by report or declaration; NULL where nobody said",
    "ratio": "how often it may be given out, 1 where NULL",
    "allocatable": "what can be given out: (total - reserved) x ratio, rounded down, never below zero",
    "allocated": "what schedulers have given out",
    "free": "what is left: allocatable - allocated; negative where more was given out than there is",
}
BAND = {
    "valid_from": "beginning of the band, inclusive",
    "valid_to": "end of the band, exclusive; NULL while it is open",
}

NODE_BAND = {"node_id": NODE_ID, **AXES, **PLACES}
CAPACITY_BAND = {
    "node_id": NODE_ID,
    "resource": "name of the resource",
    **NUMBERS,
    "status": "reported, unknown, or absent: the resource, or its node, was gone",
}
INCARNATION = "counts the machines that had this id, from 1"
