"""What can be set about the dialects, as the API takes it (floor 3, pure). `fleetfold.settings` reads it.

A token that is not set is "" or missing from its tuple; a dialect without any follows its own document.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, NamedTuple

Profile = Literal["safe", "documented"]
"""`safe` keeps every fact with its owner; `documented` does what the dialect's own document says."""

SMOLFLEET = "smolfleet"
CARAVANSERAI = "caravanserai"
FUSE = "fuse"
ARIA_PIN = "aria-pin"
STRATUM = "stratum"

NAMES = (SMOLFLEET, CARAVANSERAI, FUSE, ARIA_PIN, STRATUM)


class HostReservation(NamedTuple):
    """What an installation keeps of each host for itself."""

    vcpus: Decimal
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaravanseraiRules:
    """Which names nodes may have, and whether a beat's state outweighs an operator's drain."""

    name_rule: Literal["label", "subdomain"] = "label"
    heartbeat_state: Profile = "safe"


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseRules:
    """Who may do what, what a second registration overwrites, and where hosts' agents may be.

    `agent_networks` are the only ones in which agents are asked; with none, all but those that never are
    (`api.dialects.fuse_url`). `probe_timeout_s` bounds one such question in all.
    """

    master_token: str = field(default="", repr=False)
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    may_register: bool = True
    reregister: Profile = "safe"
    agent_networks: tuple[str, ...] = ()
    probe_timeout_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AriaRules:
    """The tokens of agents."""

    agent_tokens: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumRules:
    """Tokens by role, and what a node gets that says nothing of it."""

    agent_tokens: tuple[str, ...] = field(default=(), repr=False)
    user_tokens: tuple[str, ...] = field(default=(), repr=False)
    admin_tokens: tuple[str, ...] = field(default=(), repr=False)
    default_region: str = "default"
    default_availability_zone: str = "default"
    is_single_node: bool = False
    host_reservation: HostReservation | None = None


INTERVALS = {SMOLFLEET: 1.5, CARAVANSERAI: 3.0, ARIA_PIN: 3.0, STRATUM: 6.0}
"""How often agents of a dialect beat, in intervals of our own agents: by default 15, 30, 30 and 60 s, which
is what the dialects' documents and agents do. A dialect that is not named here has no heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectRules:
    """Everything that is set. `intervals_s` says how often the agents of a dialect beat."""

    intervals_s: dict[str, float] = field(
        default_factory=lambda: {name: 10 * times for name, times in INTERVALS.items()}
    )
    caravanserai: CaravanseraiRules = CaravanseraiRules()
    fuse: FuseRules = FuseRules()
    aria_pin: AriaRules = AriaRules()
    stratum: StratumRules = StratumRules()
