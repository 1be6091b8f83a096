"""What can be set about liveness, and the rule that it has to keep (floor 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from fleetfold.setting_group import Group

if TYPE_CHECKING:
    from projections.silence import LivenessRules

GRACE_INTERVALS = 3
# A grace of fewer intervals calls a node lost after one dropped beat and one late one.
SHORTEST_INTERVAL_S = 0.05
# Below, verdicts would be about the scheduler of this machine.
LONGEST_INTERVAL_S = 86_400
LONGEST_GRACE_S = 864_000
LONGEST_RETENTION_S = 10 * 366 * 86_400
DialectName = Literal["smolfleet", "caravanserai", "aria-pin", "stratum"]


class PoolPace(Group):
    """What one pool has of its own; what is left out is as for everybody."""

    interval_s: float | None = Field(default=None, ge=SHORTEST_INTERVAL_S, le=LONGEST_INTERVAL_S)
    grace_s: float | None = Field(default=None, gt=0, le=LONGEST_GRACE_S)


class LivenessSettings(Group):
    """How long silence may last."""

    interval_s: float = Field(
        default=10.0,
        ge=SHORTEST_INTERVAL_S,
        le=LONGEST_INTERVAL_S,
        description="Seconds between two heartbeats of an agent; fractions allowed",
    )
    grace_s: float = Field(
        default=30.0,
        gt=0,
        le=LONGEST_GRACE_S,
        description="Silence after which a node is called lost, in seconds; at least 3 × the interval",
    )
    pools: dict[str, PoolPace] = Field(
        default={},
        description='Pools with a pace of their own: JSON `{"edge": {"interval_s": 60, "grace_s": 300}}`',
    )
    dialect_intervals_s: dict[DialectName, Annotated[float, Field(gt=0, le=LONGEST_INTERVAL_S)]] = Field(
        default={},
        description='Seconds between two beats of agents by dialect: JSON `{"stratum": 60}`; one that is not '
        "named beats every 1.5 (`smolfleet`), 3 (`caravanserai`, `aria-pin`) or 6 (`stratum`) intervals",
    )
    zone_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Share of a zone's living nodes from which on their common silence is the zone's",
    )
    zone_min: int = Field(
        default=10, ge=1, description="How many nodes have to fall silent together for that, at least"
    )
    zone_hold_s: float = Field(
        default=300.0,
        ge=0,
        le=LONGEST_INTERVAL_S,
        description="Seconds for which a silent zone holds the verdicts on its nodes",
    )
    retire_after_s: float | None = Field(
        default=None,
        gt=0,
        le=LONGEST_RETENTION_S,
        description="Seconds after which a node that stays lost is retired, unless it is held or has work; "
        "not set: never",
    )
    probe: bool = Field(
        default=False, description="Whether a node is asked once more before it is called lost"
    )

    @model_validator(mode="after")
    def _grace_covers_three_intervals(self) -> Self:
        _check(self.interval_s, self.grace_s, whose="")
        for name, pool in self.pools.items():
            _check(pool.interval_s or self.interval_s, pool.grace_s or self.grace_s, whose=f"pool {name!r}: ")
        return self

    def rules(self) -> LivenessRules:
        """Return what is set as the evaluator takes it."""
        from projections.silence import LivenessRules, Pace  # noqa: PLC0415 - numpy, which no command needs

        return LivenessRules(
            interval_s=self.interval_s,
            grace_s=self.grace_s,
            pools={
                name: Pace(pool.interval_s or self.interval_s, pool.grace_s or self.grace_s)
                for name, pool in self.pools.items()
            },
            zone_share=self.zone_share,
            zone_min=self.zone_min,
            zone_hold_s=self.zone_hold_s,
            probe=self.probe,
        )


def _check(interval_s: float, grace_s: float, *, whose: str) -> None:
    if grace_s < round(GRACE_INTERVALS * interval_s, 6):  # 3 × 0.2 is more than 0.6 for a machine
        raise ValueError(
            f"{whose}a grace of {grace_s:g} s is shorter than {GRACE_INTERVALS} × the interval of "
            f"{interval_s:g} s: set the grace to {GRACE_INTERVALS * interval_s:g} s or more, "
            f"or the interval to {grace_s / GRACE_INTERVALS:g} s or less"
        )
